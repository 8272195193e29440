"""This broker's id in replica lists, as an ephemeral node (docs: kafka-paths; KIP-380).

The czxid of ``/brokers/ids/ID`` is the broker epoch: each registration has a new one, and
instructions for an earlier one are refused. So the broker registers once per session, after it can
receive instructions (docs: kafka-procedures).

Only the session proves that an existing node is ours (KAFKA-4229): the id in its name and the
address in it are also those of an earlier registration.
"""

import asyncio
import logging
import random
from functools import partial
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.locks import PreviousSessionNodes
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import CorruptRecord, InvalidName, NodeExists, StartError
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import CreateMode, MetadataStore, Versioned
from broker_ctl.store.records.partitions import decode_broker, encode_broker
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Between two looks whether the daemon that holds the number sends heartbeats.
_POLL_S: Final = 0.25


def _registration_of(node: Versioned) -> str | None:
    """The daemon that registered an id."""
    try:
        return paths.registration(decode_broker(node).daemon)
    except (CorruptRecord, InvalidName) as error:
        log.warning("cannot read the registration of a broker id: %s", error)
        return None


class BrokerIds:
    """The registration of one broker id. Lives as long as the store.

    Args:
        own: the broker to register; its epoch is ignored.
    """

    def __init__(
        self,
        store: MetadataStore,
        own: LiveBroker,
        deletions: Deletions,
        clock: Clock,
        tick_s: float,
        *,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._rng = rng
        self._deletions = deletions
        self._own = own
        self._clock = clock
        self._path = paths.broker(own.broker_id)
        self._previous_nodes = PreviousSessionNodes(
            store,
            tick_s,
            name=f"brokerId={own.broker_id}",
            advice="give each broker its own",
            registration_of=_registration_of,
        )
        self._session_id = 0
        # The session whose node exists or may exist; 0 if this broker cannot have one.
        self._node_session_id = 0
        self._epoch = 0
        self._wake = asyncio.Event()

    @property
    def broker_id(self) -> int:
        """The broker id."""
        return self._own.broker_id

    @property
    def epoch(self) -> int:
        """The broker epoch; 0 while this broker is not registered in its current session."""
        is_current = self._session_id != 0 and self._session_id == self._store.session_id
        return self._epoch if is_current else 0

    async def register(self) -> int:
        """Register after the node of an earlier session is gone; returns the broker epoch.

        Raises:
            StartError: another live process has the same id.
        """
        node = None
        while node is None:
            node = await retry(
                self._create,
                f"cannot register broker {self.broker_id}",
                rng=self._rng,
                judge=is_undecided,
            )
        self._session_id, self._epoch = node.stat.ephemeral_owner, node.stat.czxid
        log.info("registered as broker %d at epoch %d", self.broker_id, self._epoch)
        return self._epoch

    async def wait_free(self) -> None:
        """Return once no other process has the id, before this broker becomes visible.

        Raises:
            StartError: another process has it and is alive, as its next heartbeat shows.
        """
        what = f"cannot read who holds brokerId={self.broker_id}"
        while not await retry(self._is_free, what, rng=self._rng):
            log.info("brokerId=%d was held by a node that is gone: reading again", self.broker_id)

    async def _is_free(self) -> bool:
        """Whether no other process has the number; false once a node of another one is gone."""
        node = await self._store.get(self._path)
        if node is None or node.stat.ephemeral_owner == self._store.session_id:
            return True
        async with TaskScope(f"number {self.broker_id}") as scope:
            waits = [
                scope.start(self._previous_nodes.wait_gone(self._path), "end", is_joined=True),
                scope.start(self._refuse_living(node), "heartbeat", is_joined=True),
            ]
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        return False

    async def _refuse_living(self, node: Versioned) -> None:
        """Never returns; raises at the next heartbeat of the daemon that holds the id."""
        try:
            daemon = decode_broker(node).daemon
            lease = paths.lease(daemon)
        except (CorruptRecord, InvalidName):
            daemon = lease = ""
        if not lease or daemon == self._own.daemon:
            # An earlier run of this broker, or an unknown holder: wait for its node to go.
            await asyncio.get_running_loop().create_future()
        first = await self._store.exists(lease)
        while True:
            await asyncio.sleep(_POLL_S)
            now = await self._store.exists(lease)
            if first is not None and now is not None and now.mzxid != first.mzxid:
                raise StartError(
                    f"brokerId={self.broker_id} is in use: {daemon} has it, and is alive; "
                    "give each broker its own",
                )
            first = now

    async def _create(self) -> Versioned | None:
        """One attempt; None when something had to be cleared first."""
        # The queued deletion of an earlier node must not hit the new one.
        await self._deletions.wait_gone(self._path)
        self._node_session_id = self._store.session_id
        data = encode_broker(self._own, self._clock.wall_ms())
        try:
            return await self._store.create(
                self._path, data, CreateMode.EPHEMERAL, make_parents=True
            )
        except NodeExists:
            await self._previous_nodes.wait_gone(self._path)
            return None

    async def keep(self) -> None:
        """Register again whenever the node is deleted, until cancelled."""
        look = self._wake.set
        stop_watching = await set_watch(self._store, self._path, lambda _: look(), rng=self._rng)
        # A notification may fall into a lost connection.
        stop_listening = self._store.listen(lambda _: look())
        try:
            while True:
                self._wake.clear()
                if self.epoch and not await self._is_intact():
                    log.warning("%s was deleted: registering again", self._path)
                    await self.register()
                await self._wake.wait()
        finally:
            stop_listening()
            stop_watching()

    async def _is_intact(self) -> bool:
        """Whether the node of this registration exists, or is no longer needed."""
        what = f"cannot read the registration of broker {self.broker_id}"
        stat = await retry(partial(self._store.exists, self._path), what, rng=self._rng)
        # Meanwhile it may have been unregistered on purpose.
        return not self.epoch or (stat is not None and stat.czxid == self.epoch)

    def on_session_end(self) -> None:
        """The session has ended, and the registration with it."""
        self._session_id = self._node_session_id = self._epoch = 0

    async def unregister(self) -> None:
        """Delete the registration, retrying during outages; the caller sets the deadline.

        The controller notices at once. Another process may have registered the id already: only a
        node of this broker's session is deleted.
        """
        session_id = self._node_session_id
        self.on_session_end()
        if session_id:
            self._deletions.add_own(self._path, session_id)
            await self._deletions.wait_gone(self._path)
