"""The metadata store over one ZooKeeper session: chroot, deadlines, lost replies resolved."""

import logging
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from broker_ctl import errors
from broker_ctl.addresses import look_up_all
from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.store.interface import (
    ANY_VERSION,
    NO_SESSION,
    Answer,
    Create,
    CreateMode,
    Delete,
    Notification,
    NotificationListener,
    Operation,
    Outcome,
    Read,
    Result,
    SavedSession,
    SessionListener,
    SetData,
    StallWrite,
    Stat,
    Versioned,
)
from broker_ctl.store.path_rules import is_at_or_below, validate
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access import (
    ANONYMOUS,
    AclEntry,
    NodeAccess,
    ProvenIdentity,
    get_acl,
    set_acl,
)
from broker_ctl.store.zookeeper.access_control import AccessControl
from broker_ctl.store.zookeeper.connection import OnReply, StallFrame
from broker_ctl.store.zookeeper.requests import OnResolved, Requests
from broker_ctl.store.zookeeper.server_status import PROBE_LIMIT_S, WatchTrial, least_timeouts_s
from broker_ctl.store.zookeeper.session import Session, SessionOptions
from broker_ctl.store.zookeeper.watches import own_ephemerals
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_DEFAULT_PORT: Final = 2181


def parse_hosts(text: str) -> list[tuple[str, int]]:
    """``host:port,host`` as pairs.

    Raises:
        StoreError: nothing there, or a port that is not a number.
    """
    hosts: list[tuple[str, int]] = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host:
            host, port = port, str(_DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise errors.StoreError(f"{text!r}: hosts are host:port,host:port")
        hosts.append((host.strip("[]"), int(port)))
    return hosts


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store reaches its ensemble.

    Attributes:
        hosts: ``host:port,host:port``.
        chroot: prefix of every path, ``/x``, or empty; it must exist or be creatable.
        session_timeout_s: asked for; the server clamps it.
        operation_timeout_s: every call ends by then.
        identity: who this client is to the servers.
        access: who may use created nodes; None: with an identity only its holders, else everybody.
        anonymous_tls: as ``tls``, without a client certificate.
        resumed: a session of an earlier process to take up again.
        max_retries, watchdog, on_sent, on_reply, on_no_quorum: see `SessionOptions`.
        on_resolved: see `OnResolved`.
    """

    hosts: str
    chroot: str = ""
    name: str = "metadata-store"
    session_timeout_s: float = 30.0
    operation_timeout_s: float = 30.0
    max_in_flight: int = 1000
    max_frame_bytes: int = 0xFFFFF
    identity: ProvenIdentity = ANONYMOUS
    access: NodeAccess | None = None
    tls: ssl.SSLContext | None = None
    anonymous_tls: ssl.SSLContext | None = None
    resumed: SavedSession = field(default=NO_SESSION, repr=False)
    max_retries: int = -1
    watchdog: LoopWatchdog | None = None
    on_sent: Callable[[float], None] | None = None
    on_reply: OnReply | None = None
    on_resolved: OnResolved | None = None
    on_no_quorum: Callable[[int], None] | None = None


class ZooKeeperStore:
    """`MetadataStore` on a real ensemble."""

    def __init__(self, options: StoreOptions, rng: random.Random | None = None) -> None:
        self._options = options
        self._chroot = options.chroot.rstrip("/")
        self._session = Session(
            SessionOptions(
                hosts=parse_hosts(options.hosts),
                timeout_s=options.session_timeout_s,
                max_in_flight=options.max_in_flight,
                max_frame_bytes=options.max_frame_bytes,
                identity=options.identity,
                tls=options.tls,
                resumed=options.resumed,
                max_retries=options.max_retries,
                watchdog=options.watchdog,
                on_sent=options.on_sent,
                on_reply=options.on_reply,
                on_no_quorum=options.on_no_quorum,
            ),
            rng or random.SystemRandom(),
        )
        self._access = options.access or NodeAccess(options.identity.is_known)
        acl, timeout_s = self._access.acl, options.operation_timeout_s
        self._requests = Requests(self._session, timeout_s, acl, self._chroot, options.on_resolved)
        self._whole_tree = Requests(self._session, timeout_s, acl)
        self._tasks = TaskScope(f"store {options.name}")

    # Session.

    @property
    def name(self) -> str:
        """Label of the metrics."""
        return self._options.name

    @property
    def session_id(self) -> int:
        """0 while there is none."""
        return self._session.session_id

    @property
    def ended_by(self) -> errors.StoreError | None:
        """Why the session ended; None while requests can be sent."""
        return self._session.ended_by

    @property
    def saved_session(self) -> SavedSession:
        """What resumes the session."""
        return self._session.saved

    @property
    def session_timeout_s(self) -> float:
        """As negotiated."""
        return self._session.timeout_s

    @property
    def handshake_s(self) -> float:
        """See `MetadataStore.handshake_s`."""
        return self._session.handshake_s

    @property
    def last_zxid(self) -> int:
        """The newest zxid that any reply has shown."""
        return self._session.last_zxid

    @property
    def is_connected(self) -> bool:
        """Whether requests go out at once."""
        return self._session.is_connected

    @property
    def in_flight(self) -> int:
        """Requests that are queued or unanswered."""
        return self._session.in_flight

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """See `MetadataStore.listen`."""
        return self._session.listen(listener)

    def repeat_in_stalls(self, write: StallWrite | None) -> None:
        """See `MetadataStore.repeat_in_stalls`."""
        if write is None:
            self._session.stall_write = None
            return
        record = wire.wire_write(write.write, b"", self._chroot).record
        frame = wire.frame(record, 0)
        self._session.stall_write = StallFrame(frame, write.period_s, write.on_committed)

    async def start(self) -> None:
        """Connect in the background; `wait_connected` waits for it."""
        self._session.start()

    async def wait_connected(self) -> None:
        """See `MetadataStore.wait_connected`."""
        await self._session.wait_connected()

    async def close(self, *, end_session: bool = True) -> None:
        """See `MetadataStore.close`."""
        await self._session.close(end_session=end_session)
        await self._tasks.close()

    async def least_timeouts_s(self) -> Sequence[float]:
        """What each server that answers in time grants a session at least: minSessionTimeout.

        Raises:
            Unsupported: one is too old, or its watches do not say what has changed.
        """
        options = self._options
        servers = await look_up_all(parse_hosts(options.hosts), PROBE_LIMIT_S)
        trial = WatchTrial(self._chroot, options.identity, wire.pack_acl(self._access.acl))
        return await least_timeouts_s(
            servers, max_frame_bytes=options.max_frame_bytes, tls=options.tls, trial=trial
        )

    def whole_tree(self) -> "ZooKeeperStore":
        """The same servers without the chroot, in a session of its own that is yet to begin."""
        name = f"{self.name}-whole-tree"
        return ZooKeeperStore(
            replace(
                self._options,
                chroot="",
                name=name,
                resumed=NO_SESSION,
                watchdog=None,
                on_sent=None,
                on_reply=None,
                on_resolved=None,
            )
        )

    def access_control(self, top: str = "/") -> AccessControl:
        """The access control lists of ``top`` and the nodes below it."""
        return AccessControl(self._requests, self._chroot, self._access, self._anonymous, top)

    def _anonymous(self) -> "ZooKeeperStore":
        options = self._options
        return ZooKeeperStore(
            StoreOptions(
                options.hosts,
                options.chroot,
                name=f"{self.name}-anonymous",
                operation_timeout_s=options.operation_timeout_s,
                max_frame_bytes=options.max_frame_bytes,
                tls=options.anonymous_tls,
            )
        )

    def abort_connection(self) -> None:
        """Drop the TCP connection, as a network would."""
        self._session.abort_connection()

    # Reads.

    async def get(self, path: str) -> Versioned | None:
        """See `MetadataStore.get`."""
        validate(path)
        try:
            return await self._requests.read(wire.wire_get(path, self._chroot))
        except errors.NoNode:
            return None

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """See `MetadataStore.get_many`."""
        for path in paths:
            validate(path)
        found: list[Versioned | None] = []
        while len(found) < len(paths):
            part = paths[len(found) : len(found) + self._requests.most_reads]
            for node in await self.read_many([Read(p) for p in part], self._requests.deadline_s()):
                if isinstance(node, errors.StoreError):
                    raise node
                found.append(node if isinstance(node, Versioned) else None)
        return found

    async def exists(self, path: str) -> Stat | None:
        """See `MetadataStore.exists`."""
        validate(path)
        try:
            return await self._requests.read(wire.exists(path, self._chroot))
        except errors.NoNode:
            return None

    async def children(self, path: str) -> list[str]:
        """See `MetadataStore.children`."""
        validate(path)
        try:
            return await self._requests.read(wire.children(path, self._chroot))
        except errors.NoNode:
            return []

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """See `BulkStore.read_many`."""
        return await self._requests.read_many(reads, deadline_s)

    async def sync(self, path: str) -> None:
        """See `MetadataStore.sync`."""
        validate(path)
        await self._requests.read(wire.sync(path, self._chroot))

    async def ephemerals(self, prefix: str) -> list[str]:
        """See `MetadataStore.ephemerals`."""
        validate(prefix)
        try:
            paths = await self._requests.read(wire.ephemerals(prefix, self._chroot))
        except errors.TooLarge:
            # The protocol has no way to list them in parts.
            return await own_ephemerals(self, prefix, self._requests.deadline_s)
        # The server matches a prefix of the text: /ab is below /a for it.
        return sorted(path for path in paths if is_at_or_below(prefix, path))

    async def watch(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """See `MetadataStore.watch`."""
        outside = len(self._chroot)

        def relay(notification: Notification) -> None:
            change, path, zxid = notification
            inside = path[outside:] or "/"
            listener(tuple.__new__(Notification, (change, inside, zxid)))

        validate(root)
        watched = wire.full(root, self._chroot)
        remove = self._session.watches.add(watched, relay)

        def stop() -> None:
            remove()
            if watched not in self._session.watches.roots and self.is_connected:
                self._tasks.start(self._end_watch(watched), "end a watch")

        try:
            # The watch may be set twice, here and by a new connection: the server keeps one.
            await self._requests.read(wire.add_watch(root, self._chroot))
        except BaseException:
            stop()
            raise
        return stop

    async def _end_watch(self, watched: str) -> None:
        """Have the server forget a watch: it would notify this session for as long as it lives."""
        # No await comes before the request: a watch that is set again is set after this end.
        if watched in self._session.watches.roots:
            return
        try:
            await self._whole_tree.read(wire.remove_watch(watched))
        except errors.StoreError as error:
            # The connection or the session has ended, and the watch with it.
            log.debug("cannot end the watch at %s: %s", watched, error)

    async def get_acl(self, path: str) -> tuple[AclEntry, ...]:
        """The access control list of a node.

        Raises:
            NoNode, NoAuth: as named.
        """
        validate(path)
        return await self._requests.read(get_acl(path, self._chroot))

    async def set_acl(self, path: str, acl: Sequence[AclEntry]) -> None:
        """Replace the access control list of a node.

        Raises:
            NoNode, NoAuth: as named.
        """
        validate(path)
        entries = [one.sent for one in acl]
        await self._requests.read(set_acl(path, entries, self._chroot))

    async def reconfig(
        self, joining: str = "", leaving: str = "", members: str = "", version: int = ANY_VERSION
    ) -> bytes:
        """Change the members of the ensemble; returns its new configuration.

        Args:
            joining: servers as in the configuration file, ``server.4=host:2888:3888;2181``, joined
                by commas.
            leaving: numbers of servers, joined by commas.
            members: all servers, in place of both.
            version: of the configuration that is meant; another one is refused.

        Raises:
            NoAuth: only super users, or whoever the list of the node allows.
            BadVersion: the configuration has changed.
        """
        call = wire.reconfig(joining, leaving, members, version)
        return (await self._session.call(call, self._options.operation_timeout_s))[0]

    # Writes.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
        acl: bytes = b"",
    ) -> Versioned:
        """See `MetadataStore.create`; ``acl`` as in `Create`."""
        operation = Create(path, data, mode, ttl_ms, acl)
        _check([operation])
        while True:
            try:
                created = await self._requests.write(operation)
            except errors.NoNode:
                if not make_parents:
                    raise
                # An empty container may be reaped before the next attempt, hence the loop.
                await self._make_containers(wire.full(path, self._chroot).rpartition("/")[0])
            else:
                assert isinstance(created, Versioned)
                return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `MetadataStore.set`."""
        validate(path)
        stat = await self._requests.write(SetData(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `MetadataStore.delete`."""
        validate(path)
        await self._requests.write(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """See `MetadataStore.multi`."""
        _check(operations)
        return await self._requests.multi(operations) if operations else ()

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """See `BulkStore.write_many`."""
        return await self._requests.write_many(operations, deadline_s)

    # Inside.

    async def _make_containers(self, path: str) -> None:
        """Create ``path`` and its missing parents; the server reaps them when they become empty.

        The path is the server's: the chroot may be missing, too.
        """
        if not path:
            return
        try:
            await self._whole_tree.write(Create(path, mode=CreateMode.CONTAINER))
        except errors.NoNode:
            await self._make_containers(path.rpartition("/")[0])
            await self._make_containers(path)
        except errors.NodeExists:
            return


def _check(operations: Sequence[Operation]) -> None:
    for operation in operations:
        is_numbered = isinstance(operation, Create) and operation.mode.is_sequential
        # The server appends digits, so a sequential name may end with a slash.
        validate(operation.path + "0" if is_numbered else operation.path)
