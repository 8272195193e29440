"""This broker's number in the replica lists, as an ephemeral node (docs: kafka-paths; KIP-380).

The czxid of ``/brokers/ids/ID`` is the broker epoch: each registration begins another life of the
broker, and whatever was meant for an earlier one is refused. So it is made once in each session,
after the broker is able to take instructions (docs: kafka-procedures).

Only the session tells whether a node that stands there is ours (KAFKA-4229): the number in its
name, and the address in it, are those of an earlier life too.
"""

import asyncio
import logging
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.locks.pending_deletions import Deletions
from broker_ctl.coordination.locks.stale_nodes import PreviousSessionNodes
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import (
    Ambiguous,
    CorruptRecord,
    InvalidName,
    NodeExists,
    StartError,
    StoreError,
)
from broker_ctl.store import partition_paths, paths
from broker_ctl.store.interface import CreateMode, MetadataStore, Versioned
from broker_ctl.store.records.partitions import decode_broker, encode_broker
from broker_ctl.store.watching import set_watch
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.25


def _registration_of(node: Versioned) -> str | None:
    """Of the daemon that registered a number."""
    try:
        return paths.registration(decode_broker(node).daemon)
    except (CorruptRecord, InvalidName) as error:
        log.warning("%s", error)
        return None


class BrokerIds:
    """The registration of one number. Lives as long as the store.

    Args:
        own: what is registered; its epoch is not looked at.
    """

    def __init__(
        self,
        store: MetadataStore,
        own: LiveBroker,
        deletions: Deletions,
        clock: Clock,
        tick_s: float,
    ) -> None:
        self._store = store
        self._deletions = deletions
        self._own = own
        self._clock = clock
        self._path = partition_paths.broker(own.broker_id)
        self._previous_nodes = PreviousSessionNodes(
            store,
            tick_s,
            name=f"brokerId={own.broker_id}",
            advice="give each broker its own",
            registration_of=_registration_of,
        )
        self._session_id = 0
        # The session whose node stands there, or may: 0 where none of ours can.
        self._node_session_id = 0
        self._epoch = 0
        self._wake = asyncio.Event()

    @property
    def broker_id(self) -> int:
        """The number."""
        return self._own.broker_id

    @property
    def epoch(self) -> int:
        """The broker epoch; 0 while this broker is not registered in the session it has now."""
        is_current = self._session_id != 0 and self._session_id == self._store.session_id
        return self._epoch if is_current else 0

    async def register(self) -> int:
        """Begin a life, waiting for the node of an earlier one to end; answers with its epoch.

        Raises:
            StartError: another process has the same number, and is alive.
        """
        while True:
            # What an earlier life left behind must not take the new node with it.
            await self._deletions.wait_gone(self._path)
            self._node_session_id = self._store.session_id
            try:
                node = await self._create()
            except StoreError as error:
                if not error.can_retry and not isinstance(error, Ambiguous):
                    raise
                log.info("registering broker %d: %s; again", self.broker_id, error)
                await asyncio.sleep(_RETRY_S)
            else:
                if node is not None:
                    self._session_id, self._epoch = node.stat.ephemeral_owner, node.stat.czxid
                    log.info("registered as broker %d at epoch %d", self.broker_id, self._epoch)
                    return self._epoch

    async def wait_free(self) -> None:
        """Return once nobody else has the number: before others see anything of this broker.

        Raises:
            StartError: another process has it, and is alive: told at its next heartbeat.
        """
        while True:
            try:
                node = await self._store.get(self._path)
                if node is None or node.stat.ephemeral_owner == self._store.session_id:
                    return
                async with TaskScope(f"number {self.broker_id}") as scope:
                    waits = [
                        scope.start(
                            self._previous_nodes.wait_gone(self._path), "end", is_joined=True
                        ),
                        scope.start(self._refuse_living(node), "heartbeat", is_joined=True),
                    ]
                    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                    for ended in done:
                        ended.result()
            except StoreError as error:
                if not error.can_retry:
                    raise
                log.info("who has brokerId=%d? %s; asking again", self.broker_id, error)
                await asyncio.sleep(_RETRY_S)

    async def _refuse_living(self, node: Versioned) -> None:
        """Never returns; raises once the daemon that holds the number beats."""
        try:
            daemon = decode_broker(node).daemon
            lease = paths.lease(daemon)
        except (CorruptRecord, InvalidName):
            daemon = lease = ""
        if not lease or daemon == self._own.daemon:
            # A run of this very broker from before, or nobody who could be asked: outwaited.
            await asyncio.get_running_loop().create_future()
        first = await self._store.exists(lease)
        while True:
            await asyncio.sleep(_RETRY_S)
            now = await self._store.exists(lease)
            if first is not None and now is not None and now.mzxid != first.mzxid:
                raise StartError(
                    f"brokerId={self.broker_id} is in use: {daemon} has it, and is alive; "
                    "give each broker its own",
                )
            first = now

    async def _create(self) -> Versioned | None:
        """One attempt; None when something had to be cleared first."""
        data = encode_broker(self._own, self._clock.wall_ms())
        try:
            return await self._store.create(
                self._path, data, CreateMode.EPHEMERAL, make_parents=True
            )
        except NodeExists:
            await self._previous_nodes.wait_gone(self._path)
            return None

    async def keep(self) -> None:
        """Begin another life whenever somebody took the node away; until cancelled."""
        look = self._wake.set
        stop_watching = await set_watch(self._store, self._path, lambda _: look())
        # A notification may fall into a lost connection.
        stop_listening = self._store.listen(lambda _: look())
        try:
            while True:
                self._wake.clear()
                if self.epoch and not await self._is_intact():
                    log.warning("%s was taken away: registering anew", self._path)
                    await self.register()
                await self._wake.wait()
        finally:
            stop_listening()
            stop_watching()

    async def _is_intact(self) -> bool:
        """Whether the node of this life does, or need not any more."""
        while True:
            try:
                stat = await self._store.exists(self._path)
            except StoreError as error:
                if not error.can_retry:
                    raise
                log.info("is broker %d registered? %s; again", self.broker_id, error)
                await asyncio.sleep(_RETRY_S)
            else:
                # Meanwhile it may have been taken back on purpose.
                return not self.epoch or (stat is not None and stat.czxid == self.epoch)

    def on_session_end(self) -> None:
        """The session has ended, and the registration with it."""
        self._session_id = self._node_session_id = self._epoch = 0

    async def unregister(self) -> None:
        """End this life, however long the store is away; the caller gives the deadline.

        The controller sees at once that the broker has gone. The number may be another's already:
        only what is of this broker's session goes.
        """
        session_id = self._node_session_id
        self.on_session_end()
        if session_id:
            self._deletions.add_own(self._path, session_id)
            await self._deletions.wait_gone(self._path)
