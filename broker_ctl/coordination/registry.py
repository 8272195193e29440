"""The live brokers: registration of this one, and who else is there.

Two ephemeral nodes in one transaction: Pulsar's load report, which other tools read, and our own
registration, which says how to reach the process and which run of it this is. Brokers follow only
the registrations; reports change all the time and are for the leader.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from broker_ctl.coordination.watched_tree import WatchedTree
from broker_ctl.core.broker import BrokerUrls
from broker_ctl.errors import (
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NodeExists,
    NoNode,
    StartError,
    StoreError,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Versioned,
)
from broker_ctl.store.records.ours import Registration
from broker_ctl.tasks import wait_until

log = logging.getLogger(__name__)

_WAIT_MARGIN_S = 2.0
# ZooKeeper's default upper bound on a session timeout, for nodes that do not say theirs.
_MAX_TIMEOUT_TICKS = 20


@dataclass(frozen=True, slots=True)
class Peer:
    """A live broker-ctl process, and the czxid of its registration."""

    registration: Registration
    czxid: int

    @property
    def urls(self) -> BrokerUrls:
        """Where it is reached."""
        return self.registration.urls


def _decode(node: Versioned) -> Peer:
    return Peer(Registration.decode(node.path, node.data), node.stat.czxid)


class Registry:
    """Who is there. Lives as long as the store; `register` is called once in each session."""

    def __init__(self, store: MetadataStore, own: Registration, tick_s: float) -> None:
        self._store = store
        self._own = own
        self._tick_s = tick_s
        self._tree = WatchedTree(store, paths.REGISTRATIONS, _decode)
        self._report_path = paths.load_report(own.urls.broker_id)
        self._path = paths.registration(own.urls.broker_id)
        self._is_registered = False

    async def start(self) -> None:
        """Begin to follow the registrations."""
        await self._tree.start()

    async def close(self) -> None:
        """Stop following."""
        await self._tree.close()

    # Others.

    @property
    def broker_id(self) -> str:
        """This broker."""
        return self._own.urls.broker_id

    @property
    def is_registered(self) -> bool:
        """Whether this broker stands in the registry."""
        return self._is_registered

    def peer(self, broker_id: str) -> Peer | None:
        """A live broker, by the newest that was read."""
        return self._tree.values.get(broker_id)

    @property
    def peers(self) -> dict[str, Peer]:
        """All live brokers by id, this one among them."""
        return dict(self._tree.values)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Hear that the set has changed."""
        return self._tree.listen(listener)

    async def wait_synced(self) -> None:
        """Return once the registrations have been read."""
        await self._tree.wait_synced()

    async def was_standing_at(self, broker_id: str, zxid: int) -> bool:
        """Whether the broker's registration stood when the transaction ``zxid`` was applied.

        An expiry takes the registration away in the transaction that takes the owner nodes; a
        release leaves it standing (I7). A younger registration is one of a later session.
        """
        stat = await self._store.exists(paths.registration(broker_id))
        return stat is not None and (zxid <= 0 or stat.czxid < zxid)

    async def foreign_brokers(self) -> list[str]:
        """Brokers in Pulsar's registry that are no broker-ctl process."""
        foreign = []
        for name in await self._store.children(paths.LOAD_REPORTS):
            # Both nodes of a broker come in one transaction and go with one session, so they are
            # read together: one list after the other would accuse whoever comes or goes between.
            report, registration = await self._store.get_many(
                [paths.load_report(name), paths.registration(name)]
            )
            if report is not None and registration is None:
                foreign.append(name)
        return foreign

    # This one.

    async def register(self, report: bytes) -> None:
        """Put both nodes in place, waiting for those of an earlier session to end.

        Raises:
            StartError: another process with the same broker id is alive.
        """
        own = replace(self._own, session_timeout_ms=round(self._store.session_timeout_s * 1000))
        operations = [
            Create(self._report_path, report, CreateMode.EPHEMERAL),
            Create(self._path, own.encode(), CreateMode.EPHEMERAL),
        ]
        while True:
            try:
                await self._store.multi(operations)
            except MultiFailed as error:
                if isinstance(error.cause, NoNode):
                    await self._make_parents()
                elif isinstance(error.cause, NodeExists):
                    await self._clear_earlier(self._report_path)
                    await self._clear_earlier(self._path)
                else:
                    raise error.cause from error
            else:
                self._is_registered = True
                log.info("registered as %s", self.broker_id)
                return

    def ended(self) -> None:
        """The session has ended, and the registration with it."""
        self._is_registered = False

    async def publish(self, report: bytes) -> None:
        """Replace the load report.

        Raises:
            NoNode: not registered (any more); the report would come without the owner.
        """
        await self._store.set(self._report_path, report)

    async def announce_drain(self) -> None:
        """Say in the registration that nothing may be sent here any more."""
        self._own = replace(self._own, is_draining=True)
        try:
            await self._store.set(self._path, self._own.encode())
        except NoNode:
            log.info("not registered: nobody to tell of the drain")

    async def unregister(self) -> None:
        """Take both nodes away; others see at once that this broker has gone."""
        if not self._is_registered:
            return
        self._is_registered = False
        try:
            await self._store.multi([Delete(self._report_path), Delete(self._path)])
        except StoreError as error:
            log.warning("unregistering: %s; the nodes end with the session", error)

    async def _make_parents(self) -> None:
        for path in (paths.LOAD_REPORTS, paths.REGISTRATIONS):
            try:
                await self._store.create(path, make_parents=True)
            except NodeExists:
                continue

    async def _clear_earlier(self, path: str) -> None:
        """Wait until a node of another session is gone; take one of this session away."""
        node = await self._store.get(path)
        if node is None:
            return
        if node.stat.ephemeral_owner == self._store.session_id:
            # Ours, from a call whose answer was lost: it goes and comes again with its twin.
            await self._delete_own(node)
            return
        limit_s = await self._outlive_s()
        log.info("%s stands from another session: waiting up to %.1f s", path, limit_s)
        if not await wait_until(lambda: self._is_gone(node), limit_s):
            who = await self._store.get(self._path)
            raise StartError(
                f"broker id {self.broker_id} is in use: {path} outlived {limit_s:.0f} s"
                f"{'' if who is None else self._twin(who)}; "
                "give each broker its own advertisedAddress and webServicePort",
            )

    async def _delete_own(self, node: Versioned) -> None:
        try:
            await self._store.delete(node.path, node.stat.version)
        except (NoNode, BadVersion):
            log.debug("%s changed meanwhile", node.path)

    async def _is_gone(self, node: Versioned) -> bool:
        stat = await self._store.exists(node.path)
        return stat is None or stat.czxid != node.stat.czxid

    async def _outlive_s(self) -> float:
        """How long a node of a dead session can stand (reference: metadata-store 3.8)."""
        timeout_s = max(self._store.session_timeout_s, _MAX_TIMEOUT_TICKS * self._tick_s)
        node = await self._store.get(self._path)
        if node is not None:
            try:
                timeout_s = Registration.decode(node.path, node.data).session_timeout_ms / 1000
            except CorruptRecord as error:
                log.warning("%s", error)
        return timeout_s + 2 * self._tick_s + _WAIT_MARGIN_S

    @staticmethod
    def _twin(node: Versioned) -> str:
        try:
            return f", a process started at {_decode(node).registration.started_ms} ms holds it"
        except CorruptRecord:
            return ""
