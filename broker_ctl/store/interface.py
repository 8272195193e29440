"""The metadata store: the interface of ZooKeeper, and of the store in memory, to all other code."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Final, NamedTuple, Protocol

from broker_ctl.errors import Ambiguous, StoreError

# The class of a request: which requests go first when many wait.
#
# The class belongs to the task that asks, not to the call: whatever a task asks for, through
# caches and helpers too, and whatever the tasks that it starts ask for, is of its class.


class RequestClass(IntEnum):
    """Classes, the most urgent first."""

    # Locks, elections, heartbeats: authority ends if they are late.
    CONTROL = 0
    # Lookups, administration, the command line: a client waits.
    INTERACTIVE = 1
    # Loads, reclaims, re-reads after events: many at once, and no client waits for each of them.
    BULK = 2


REQUEST_CLASS: Final[ContextVar[RequestClass]] = ContextVar(
    "class of requests", default=RequestClass.INTERACTIVE
)


@contextmanager
def requests_as(request_class: RequestClass) -> Iterator[None]:
    """Requests that are made inside the block, and by tasks that it starts, are of this class."""
    token = REQUEST_CLASS.set(request_class)
    try:
        yield
    finally:
        REQUEST_CLASS.reset(token)


# How long the requests of a task may take, where it is less than the store's own limit.


REQUEST_LIMIT_S: Final[ContextVar[float]] = ContextVar("limit of requests", default=math.inf)


@contextmanager
def requests_within(limit_s: float | None) -> Iterator[None]:
    """Each request that is made inside the block ends within these seconds; None: the store's."""
    token = REQUEST_LIMIT_S.set(REQUEST_LIMIT_S.get() if limit_s is None else limit_s)
    try:
        yield
    finally:
        REQUEST_LIMIT_S.reset(token)


# The metadata store: the interface of ZooKeeper, and of the store in memory, to all other code.
#
# Every call ends by its deadline (I10). A write whose reply was lost has been resolved by reading
# before the call returns; `Ambiguous` is raised only where reading cannot resolve it (I4).


ANY_VERSION: Final = -1
CONTAINER_OWNER: Final = -0x8000000000000000
_TTL_BYTE: Final = 0xFF


class CreateMode(Enum):
    """What kind of node to create."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    SEQUENTIAL = "sequential"
    EPHEMERAL_SEQUENTIAL = "ephemeral-sequential"
    CONTAINER = "container"
    TTL = "ttl"

    @property
    def is_ephemeral(self) -> bool:
        """Whether the node ends with the session."""
        return self is CreateMode.EPHEMERAL or self is CreateMode.EPHEMERAL_SEQUENTIAL

    @property
    def is_sequential(self) -> bool:
        """Whether the server appends a number to the name."""
        return self is CreateMode.SEQUENTIAL or self is CreateMode.EPHEMERAL_SEQUENTIAL


class Stat(NamedTuple):
    """A node's metadata. Identity of an ephemeral is ``(czxid, ephemeral_owner)``.

    A named tuple, as one is made for each reply: a frozen dataclass takes four times as long.
    """

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    children_count: int
    pzxid: int

    @property
    def is_ephemeral(self) -> bool:
        """Owned by a session: not persistent (0), container (0x80...) or TTL (0xff...).

        Session ids may be negative, so the sign has no meaning (docs: zookeeper-wire).
        """
        owner = self.ephemeral_owner
        return owner not in {0, CONTAINER_OWNER} and (owner >> 56) & 0xFF != _TTL_BYTE


class SavedSession(NamedTuple):
    """What a later process needs to take a session up again.

    Attributes:
        session_id: 0: there is none.
        last_xid: of the newest request; the next process counts on from it (docs: zookeeper-xids).
    """

    session_id: int = 0
    password: bytes = b""
    last_xid: int = 0


NO_SESSION: Final = SavedSession()


class Versioned(NamedTuple):
    """A node as it was read."""

    path: str
    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node; fails with NodeExists.

    ``acl`` is its access control list as it is sent; empty: that of the store.
    """

    path: str
    data: bytes = b""
    mode: CreateMode = CreateMode.PERSISTENT
    ttl_ms: int = 0
    acl: bytes = b""


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a node's data; fails with NoNode or BadVersion."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a node; fails with NoNode, BadVersion or NotEmpty."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Only in a transaction: the node must exist with this version (-1: just exist)."""

    path: str
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check
# One per operation: the node as created (sequential names resolved), the new Stat, or None.
Result = Versioned | Stat | None


class Aspect(Enum):
    """What a read asks of a node."""

    NODE = "node"
    STAT = "stat"
    CHILDREN = "children"


class Read:
    """One of several reads that are asked for together."""

    __slots__ = ("aspect", "path")

    def __init__(self, path: str, aspect: Aspect = Aspect.NODE) -> None:
        self.path = path
        self.aspect = aspect


# By aspect: the node or None, its Stat or None, the sorted names.
Found = Versioned | Stat | list[str] | None
# The outcome of one of several requests: one that is not authorized, or whose reply is lost for
# good, fails without the others.
Answer = Found | StoreError
Outcome = Result | Ambiguous


class Change(Enum):
    """What happened to a path."""

    CREATED = 1
    DELETED = 2
    MODIFIED = 3
    CHILDREN_CHANGED = 4


class Notification(NamedTuple):
    """A watch fired. It is a hint to read again; ``zxid`` is -1 where the server is too old."""

    change: Change
    path: str
    zxid: int


class SessionEvent(StrEnum):
    """Changes of the session's state, in the order in which they happened.

    CONNECTED      a new session was established: nothing of an earlier one is left to rely on
    SUSPENDED      the connection is gone, the session may live
    RECONNECTED    the same session, on a new connection; caches are empty, watches stand again
    EXPIRED        the server ended the session; the next event is CONNECTED
    CLOSED         this process closed the store, or the server refused our credentials
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    RECONNECTED = "reconnected"
    EXPIRED = "expired"
    CLOSED = "closed"


# Listeners are plain functions, called in the order of the wire: an event comes before the reply
# of any read that shows the new state. They must not block and cannot await.
NotificationListener = Callable[[Notification], None]
SessionListener = Callable[[SessionEvent], None]


@dataclass(frozen=True, slots=True)
class StallWrite:
    """A write that a thread repeats while the event loop does not run.

    Attributes:
        period_s: from one to the next.
        on_committed: called by the loop, once it runs again, for each that was applied: when it was
            sent, and when its reply had arrived at the latest, in the order of sending. In seconds
            of `clock.SystemClock`. It was sent and answered over one connection.
    """

    write: SetData
    period_s: float
    on_committed: Callable[[float, float], None]


class MetadataStore(Protocol):
    """One metadata store with one session."""

    @property
    def name(self) -> str:
        """Label of its metrics: ``metadata-store`` or ``configuration-metadata-store``."""
        ...

    @property
    def session_id(self) -> int:
        """The current session, 0 while there is none."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """As negotiated with the server, 0 while there is no session."""
        ...

    @property
    def handshake_s(self) -> float:
        """When the newest handshake that a server answered was sent, or earlier.

        In seconds of `clock.SystemClock`; 0 before the first.
        """
        ...

    @property
    def last_zxid(self) -> int:
        """The newest zxid that any reply has shown."""
        ...

    async def get(self, path: str) -> Versioned | None:
        """The node, or None where it does not exist."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[Versioned | None]:
        """The nodes in the order of the paths; several requests where one would be too large."""
        ...

    async def exists(self, path: str) -> Stat | None:
        """The node's Stat, or None."""
        ...

    async def children(self, path: str) -> list[str]:
        """Sorted names of the children; empty where the node does not exist."""
        ...

    async def create(
        self,
        path: str,
        data: bytes = b"",
        mode: CreateMode = CreateMode.PERSISTENT,
        *,
        ttl_ms: int = 0,
        make_parents: bool = False,
    ) -> Versioned:
        """Create a node. Missing parents are made as containers, as Pulsar does.

        Raises:
            NodeExists: the node exists (it may be an ephemeral of this session: read it to find
                out).
            NoNode: the parent is missing and ``make_parents`` is false.
        """
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data.

        Raises:
            NoNode, BadVersion: as named.
        """
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node.

        Raises:
            NoNode, BadVersion, NotEmpty: as named.
        """
        ...

    async def multi(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """All operations or none, at one zxid.

        Raises:
            MultiFailed: the first operation that failed, and why; nothing was done.
        """
        ...

    async def sync(self, path: str) -> None:
        """Wait until the connected server has applied what the leader had committed."""
        ...

    async def ephemerals(self, prefix: str) -> list[str]:
        """Paths below ``prefix`` of this session's ephemeral nodes."""
        ...

    async def watch(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """Notify ``listener`` of every change at ``root`` and below, now and after each reconnect.

        Changes that happen while disconnected are not replayed: after RECONNECTED and CONNECTED
        read again. Returns a function that ends the watch.
        """
        ...

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Notify ``listener`` of every session event. Returns a function that stops it."""
        ...

    def repeat_in_stalls(self, write: StallWrite | None) -> None:
        """Repeat this write, over later connections, while the event loop does not run.

        Only for as long as the loop may be taken for busy, and where a thread watches it.
        """
        ...

    async def wait_connected(self) -> None:
        """Return once the session is connected.

        Raises:
            StoreClosed, AuthFailed: it never will be.
        """
        ...

    async def close(self, *, end_session: bool = True) -> None:
        """Close. With ``end_session`` false the session is left to expire, ephemerals and all."""
        ...


class BulkStore(MetadataStore, Protocol):
    """A store that accepts many independent requests at once.

    Their paths have been validated by the caller (`path_rules.validate`).

    ``deadline_s`` is of the running loop's clock.
    """

    async def read_many(self, reads: Sequence[Read], deadline_s: float) -> list[Answer]:
        """The answers, in the order of the reads.

        A reply that would be too large is asked for in parts, sent in this order.
        """
        ...

    async def write_many(
        self, operations: Sequence[Operation], deadline_s: float
    ) -> tuple[Outcome, ...]:
        """Send them as one transaction; if the reply is lost, resolve each write by itself.

        Raises:
            MultiFailed: the operation that the server refused; nothing was done.
        """
        ...
