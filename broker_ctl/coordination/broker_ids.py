"""This broker's number in the replica lists, as an ephemeral node (seed: paths; KIP-380).

The czxid of ``/brokers/ids/ID`` is the broker epoch: each registration begins another life of the
broker, and whatever was meant for an earlier one is refused. So it is made once in each session,
after the broker is able to take instructions (reference: partition-controller A.8).

Only the session tells whether a node that stands there is ours (KAFKA-4229): the number in its
name, and the address in it, are those of an earlier life too.
"""

import asyncio
import logging
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.deletions import Deletions
from broker_ctl.coordination.predecessors import Predecessors
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import (
    Ambiguous,
    CorruptRecord,
    InvalidName,
    NodeExists,
    StoreError,
)
from broker_ctl.store import partition_paths, paths
from broker_ctl.store.interface import CreateMode, MetadataStore, Versioned
from broker_ctl.store.records.partitions import decode_broker, encode_broker
from broker_ctl.store.watching import set_watch

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
        self._predecessors = Predecessors(
            store,
            tick_s,
            name=f"brokerId={own.broker_id}",
            advice="give each broker its own",
            registration_of=_registration_of,
        )
        self._session_id = 0
        # The session whose node stands there, or may: 0 where none of ours can.
        self._stood_in = 0
        self._epoch = 0
        self._missed = asyncio.Event()

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
            await self._deletions.gone(self._path)
            self._stood_in = self._store.session_id
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

    async def _create(self) -> Versioned | None:
        """One attempt; None when something had to be cleared first."""
        data = encode_broker(self._own, self._clock.wall_ms())
        try:
            return await self._store.create(
                self._path, data, CreateMode.EPHEMERAL, make_parents=True
            )
        except NodeExists:
            await self._predecessors.outlive(self._path)
            return None

    async def keep(self) -> None:
        """Begin another life whenever somebody took the node away; until cancelled."""
        look = self._missed.set
        stop_watching = await set_watch(self._store, self._path, lambda _: look())
        # A notification may fall into a lost connection.
        stop_listening = self._store.listen(lambda _: look())
        try:
            while True:
                self._missed.clear()
                if self.epoch and not await self._stands():
                    log.warning("%s was taken away: registering anew", self._path)
                    await self.register()
                await self._missed.wait()
        finally:
            stop_listening()
            stop_watching()

    async def _stands(self) -> bool:
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

    def ended(self) -> None:
        """The session has ended, and the registration with it."""
        self._session_id = self._stood_in = self._epoch = 0

    async def unregister(self) -> None:
        """End this life, however long the store is away; the caller gives the deadline.

        The controller sees at once that the broker has gone. The number may be another's already:
        only what is of this broker's session goes.
        """
        session_id = self._stood_in
        self.ended()
        if session_id:
            self._deletions.add_own(self._path, session_id)
            await self._deletions.gone(self._path)
