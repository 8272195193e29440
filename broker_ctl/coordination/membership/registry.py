"""Registration of this broker, and the registry of live brokers.

A broker has two ephemeral nodes, created in one transaction: Pulsar's load report, which other
tools read, and broker-ctl's registration, with the address of the process and its run. Brokers
watch only the registrations; reports change often and matter to the leader only.
"""

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.coordination.heartbeats import HeartbeatNode
from broker_ctl.coordination.locks import PreviousSessionNodes
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import MultiFailed, NodeExists, NoNode
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import (
    Change,
    Create,
    CreateMode,
    MetadataStore,
    Notification,
    Versioned,
)
from broker_ctl.store.records.broker_ctl import LeaseRecord, Registration

log = logging.getLogger(__name__)

_MAX_DEPARTED = 10_000


def lease_node(broker_id: str, nonce: str) -> HeartbeatNode:
    """What the heartbeats of one run of a broker write."""
    return HeartbeatNode(paths.lease(broker_id), lambda count: LeaseRecord(nonce, count).encode())


@dataclass(frozen=True, slots=True)
class Peer:
    """A live broker-ctl process; czxid and session are those of its registration."""

    registration: Registration
    czxid: int
    session_id: int

    @property
    def urls(self) -> BrokerUrls:
        """Its addresses."""
        return self.registration.urls

    @property
    def run(self) -> str:
        """Identity of this run of the process: the same in each of its sessions."""
        return self.registration.nonce

    @property
    def is_draining(self) -> bool:
        """Whether it is draining."""
        return self.registration.is_draining


def _decode(node: Versioned) -> Peer:
    registration = Registration.decode(node.path, node.data)
    return Peer(registration, node.stat.czxid, node.stat.ephemeral_owner)


class _Departures:
    """Deleted registrations, with zxid and session; session 0 if the node was never read."""

    def __init__(self, registrations: PathChildrenCache[Peer]) -> None:
        self._registrations = registrations
        self._gone: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def on_notification(self, notification: Notification) -> None:
        """Record a deleted registration."""
        broker_id = paths.name_below(paths.REGISTRATIONS, notification.path)
        if broker_id is None or notification.change is not Change.DELETED:
            return
        # The cache still has the value: it reads the node after this event.
        peer = self._registrations.values.get(broker_id)
        self._gone[broker_id] = notification.zxid, 0 if peer is None else peer.session_id
        self._gone.move_to_end(broker_id)
        if len(self._gone) > _MAX_DEPARTED:
            self._gone.popitem(last=False)

    def at(self, zxid: int) -> str | None:
        """The broker whose registration was deleted in the transaction ``zxid``."""
        if zxid <= 0:
            return None  # servers before 3.9 do not report the zxid of a deletion
        return next((name for name, (at, _) in reversed(self._gone.items()) if at == zxid), None)

    def is_later(self, broker_id: str, session_id: int, zxid: int) -> bool:
        """Whether the registration of that session was deleted after ``zxid``."""
        gone_at, gone_session = self._gone.get(broker_id, (0, 0))
        return gone_session == session_id and 0 < zxid < gone_at


class Registry:
    """The live brokers. Lives as long as the store; `register` is called once in each session."""

    def __init__(
        self,
        store: MetadataStore,
        own: Registration,
        deletions: Deletions,
        tick_s: float,
        *,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._rng = rng
        self._deletions = deletions
        self._own = own
        self._tree = PathChildrenCache(store, paths.REGISTRATIONS, _decode, rng=rng)
        self._report_path = paths.load_report(own.urls.broker_id)
        self._path = paths.registration(own.urls.broker_id)
        self._previous_nodes = PreviousSessionNodes(
            store,
            tick_s,
            name=f"broker id {own.urls.broker_id}",
            advice="give each broker its own advertisedAddress and webServicePort",
            registration_of=lambda _: self._path,
        )
        self._session_id = 0
        # The session whose nodes exist or may exist; 0 if this broker cannot have any.
        self._node_session_id = 0
        self._wake = asyncio.Event()
        self._departures = _Departures(self._tree)
        self._stop_watching: Callable[[], None] | None = None

    async def start(self) -> None:
        """Start the cache of registrations and its watch."""
        on_notification = self._departures.on_notification
        self._stop_watching = await set_watch(
            self._store, paths.REGISTRATIONS, on_notification, rng=self._rng
        )
        await self._tree.start()

    async def close(self) -> None:
        """Stop the cache and its watch."""
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        await self._tree.close()

    # All brokers.

    @property
    def broker_id(self) -> str:
        """The id of this broker."""
        return self._own.urls.broker_id

    @property
    def is_registered(self) -> bool:
        """Whether this broker is registered in its current session."""
        return self._session_id != 0 and self._session_id == self._store.session_id

    @property
    def corrupt(self) -> int:
        """Number of registrations that did not decode."""
        return self._tree.corrupt

    def peer(self, broker_id: str) -> Peer | None:
        """A live broker by the newest read; None if it is not alive."""
        return self._tree.values.get(broker_id)

    @property
    def peers(self) -> dict[str, Peer]:
        """Live brokers by id, this one included."""
        return dict(self._tree.values)

    @property
    def version(self) -> int:
        """Grows with each change of the set."""
        return self._tree.version

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` when the set has changed; returns a function that stops it."""
        return self._tree.listen(listener)

    async def wait_synced(self) -> None:
        """Return once the registrations have been read."""
        await self._tree.wait_synced()

    async def was_registered_at(self, broker_id: str, session_id: int, zxid: int) -> bool:
        """Whether the session's registration existed when the transaction ``zxid`` was applied.

        A session expiry deletes the registration in the transaction that deletes the owner nodes; a
        release leaves it (I7), if only for a moment, since a draining broker unregisters after
        releasing its bundles. The registration of another session proves nothing: a daemon that
        could not release all bundles lets its session expire, and its successor has registered long
        before that deletes the owner nodes.
        """
        stat = await self._store.exists(paths.registration(broker_id))
        if stat is not None and stat.ephemeral_owner == session_id:
            return True
        # After the read: a deletion that it has seen was notified before its answer.
        return self._departures.is_later(broker_id, session_id, zxid)

    async def departed_at(self, zxid: int) -> str | None:
        """The broker whose session ended in the transaction ``zxid``; None if none did.

        All nodes of a session are deleted at once, so this broker owned the others deleted with it.
        """
        if (departed := self._departures.at(zxid)) is None and zxid > 0:
            # Events of one transaction arrive one after the other, and before any later answer.
            await self._store.exists(paths.REGISTRATIONS)
            departed = self._departures.at(zxid)
        return departed

    # This broker.

    async def register(self, report: bytes) -> None:
        """Create both nodes, after those of an earlier session are gone.

        Raises:
            StartError: another live process has the same broker id.
        """
        created = None
        while created is None:
            created = await retry(
                partial(self._create, report),
                "cannot register",
                rng=self._rng,
                judge=is_undecided,
            )
        self._session_id = created.stat.ephemeral_owner
        log.info("registered as %s", self.broker_id)

    async def _create(self, report: bytes) -> Versioned | None:
        """One attempt; None when something had to be cleared first."""
        # Queued deletions of an earlier registration must not hit the new nodes.
        await self._deletions.wait_gone(self._report_path)
        await self._deletions.wait_gone(self._path)
        self._node_session_id = self._store.session_id
        try:
            _, created = await self._store.multi(
                [
                    Create(self._report_path, report, CreateMode.EPHEMERAL),
                    Create(self._path, self._payload(), CreateMode.EPHEMERAL),
                ],
            )
        except MultiFailed as error:
            if isinstance(error.cause, NoNode):
                await _make_parents(self._store)
            elif isinstance(error.cause, NodeExists):
                await self._previous_nodes.wait_gone(self._report_path)
                await self._previous_nodes.wait_gone(self._path)
            else:
                raise error.cause from error
            return None
        assert isinstance(created, Versioned)
        return created

    def _payload(self) -> bytes:
        timeout_ms = round(self._store.session_timeout_s * 1000)
        return replace(self._own, session_timeout_ms=timeout_ms).encode()

    async def keep(self, report: Callable[[], bytes]) -> None:
        """Register again whenever the registration is deleted; until cancelled.

        The registration is rewritten if a server has granted the session another timeout since.
        """

        def look() -> None:
            if self.is_registered and not _is_published(self.peer(self.broker_id), self._store):
                self._wake.set()

        async def restore() -> None:
            self._wake.clear()
            nodes = await self._store.get_many([self._report_path, self._path])
            # Meanwhile it may have been unregistered on purpose.
            if self.is_registered and None in nodes:
                log.warning("the registration was deleted: registering again")
                await self.register(report())
            elif self.is_registered and not _is_published(self.peer(self.broker_id), self._store):
                node = nodes[1]
                if node is None or node.stat.ephemeral_owner != self._session_id:
                    # Signed for this session, it would not count there; its deletion is notified.
                    log.warning("%s is of another session: waiting for its deletion", self._path)
                    return
                log.info("writing the timeout of the session into the registration")
                await self._store.set(self._path, self._payload())

        # The cache does not notify if a reconnect finds the same values.
        stops = [self._tree.listen(look), self._store.listen(lambda _: look())]
        try:
            while True:
                await self._wake.wait()
                await retry(
                    restore,
                    "cannot check the registration",
                    rng=self._rng,
                    judge=lambda error: is_undecided(error) or isinstance(error, NoNode),
                )
        finally:
            for stop in stops:
                stop()

    def on_session_end(self) -> None:
        """The session has ended, and the registration with it."""
        self._session_id = self._node_session_id = 0

    async def publish(self, report: bytes) -> None:
        """Replace the load report.

        Raises:
            NoNode: this broker is not registered (any more), so the report node does not exist.
        """
        try:
            await self._store.set(self._report_path, report)
        except NoNode:
            self._wake.set()
            raise

    async def announce_drain(self) -> None:
        """Mark the registration as draining, retrying until it is written."""
        self._own = replace(self._own, is_draining=True)

        async def publish() -> None:
            # Without a registration nothing is to be marked, and a node there is another's.
            if not self.is_registered:
                return
            try:
                await self._store.set(self._path, self._payload())
            except NoNode:
                log.info("no longer registered: the drain need not be announced")

        await retry(publish, "cannot announce the drain", rng=self._rng, judge=is_undecided)

    async def unregister(self) -> None:
        """Delete both nodes, retrying during outages; the caller sets the deadline."""
        self._session_id = 0
        if not self._node_session_id:
            return
        # The report first: a report without a registration is that of a foreign broker, beside
        # which no daemon starts. A broker that is killed between the two would keep all others from
        # starting until its session expires.
        for path in (self._report_path, self._path):
            self._deletions.add_own(path, self._node_session_id)
        self._node_session_id = 0
        await self._deletions.wait_gone(self._report_path)
        await self._deletions.wait_gone(self._path)


def _is_published(own: Peer | None, store: MetadataStore) -> bool:
    """Whether the registration is published with the current session timeout."""
    timeout_ms = round(store.session_timeout_s * 1000)
    return own is not None and own.registration.session_timeout_ms == timeout_ms


async def _make_parents(store: MetadataStore) -> None:
    for path in (paths.LOAD_REPORTS, paths.REGISTRATIONS):
        try:
            await store.create(path, make_parents=True)
        except NodeExists:
            continue
