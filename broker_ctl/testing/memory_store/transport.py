"""One connection between a store and a server: two one-way streets, each in order.

A request is executed at the far end of the first, at one instant; its reply comes back on the
second, behind the watch events of whatever was committed before it. A cut loses what is under way.
The first street is of the ensemble's loop, the second of the store's: a process that is stopped
has requests of its own executed all the same, and hears of it when it goes on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from broker_ctl.errors import StoreError, TooLarge
from broker_ctl.store.interface import Create, Delete, Notification, Operation, SetData
from broker_ctl.store.path_rules import is_at_or_below
from broker_ctl.testing.memory_store.ensemble import MemoryEnsemble
from broker_ctl.testing.memory_store.tree import Tree

log = logging.getLogger(__name__)

Transit = Callable[[], Awaitable[None]]


class Kind(StrEnum):
    """What a request is, as far as its failures differ."""

    READ = "read"
    READ_MANY = "read many"
    SYNC = "sync"
    ADD_WATCH = "add watch"
    CLOSE_SESSION = "close session"
    CREATE = "create"
    CREATE_EPHEMERAL = "create ephemeral"
    CREATE_SEQUENTIAL = "create sequential"
    SET = "set"
    DELETE = "delete"
    MULTI = "multi"


class Point(StrEnum):
    """Where a connection may be cut: before a request is executed, or after, ahead of its reply."""

    BEFORE = "before"
    AFTER = "after"


class Fault(StrEnum):
    """What may happen to a request at a server.

    CUT: the connection is closed. TOO_LARGE: the reply is, for which the client closes it.
    """

    CUT = "cut"
    TOO_LARGE = "too large"


@dataclass(slots=True, eq=False)
class Request:
    """A request, and how far it came.

    Attributes:
        perform: what the server does, given the session's id and what the server shows.
        operations: what it writes; empty for a read.
        is_sent: whether a connection has ever taken it.
        session_id: in whose name it was sent.
        zxid_before: the newest zxid that the client had seen when it sent the request.
        executions: how often it was carried out. Twice would be a fault of the line.
    """

    what: str
    perform: Callable[[int, Tree], Any]
    kind: Kind = Kind.READ
    operations: Sequence[Operation] = ()
    future: "asyncio.Future[Any]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(),
    )
    is_sent: bool = False
    session_id: int = 0
    zxid_before: int = 0
    executions: int = 0

    @property
    def needs_leader(self) -> bool:
        """Whether a server cannot answer it alone."""
        return bool(self.operations) or self.kind in {Kind.SYNC, Kind.CLOSE_SESSION}

    def answer(self, value: Any) -> None:
        """Settle it, unless its caller has given up."""
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: StoreError) -> None:
        """Settle it, unless its caller has given up."""
        if not self.future.done():
            self.future.set_exception(error)


# Asked about every request at both points; None: it goes well.
Faults = Callable[[Request, Point], Fault | None]


def kind_of(operations: Sequence[Operation]) -> Kind:
    """The kind of a write."""
    match operations:
        case [Create(mode=mode)] if mode.is_sequential:
            kind = Kind.CREATE_SEQUENTIAL
        case [Create(mode=mode)] if mode.is_ephemeral:
            kind = Kind.CREATE_EPHEMERAL
        case [Create()]:
            kind = Kind.CREATE
        case [SetData()]:
            kind = Kind.SET
        case [Delete()]:
            kind = Kind.DELETE
        case _:
            kind = Kind.MULTI
    return kind


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes back, and the server's newest zxid at that moment."""

    request: Request
    zxid: int
    value: Any = None
    error: StoreError | None = None


class MemoryTransport:
    """A connection, from when a server took it until it is cut.

    Args:
        transit: awaited for each message on its way.
        faults: what goes wrong at the server; None: nothing.
        on_arrival: hears replies and watch events, in order.
        on_drop: hears that the server closed the connection.
        pulse: see `servers.Client.pulse_s`; None: the client never stops.
    """

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        transit: Transit,
        *,
        faults: Faults | None = None,
        on_arrival: Callable[[Reply | Notification], None],
        on_drop: Callable[["MemoryTransport"], None],
        pulse: Callable[[], float] | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._transit = transit
        self._faults = faults
        self._on_arrival = on_arrival
        self._on_drop = on_drop
        self._pulse = pulse
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.Queue[Request] = asyncio.Queue()
        self._back: asyncio.Queue[Reply | Notification] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = True
        # As the server set it when it took the connection.
        self.server = ensemble.leader
        self.session_id = 0
        # What is watched over this connection.
        self.roots: set[str] = set()
        # Requests that were sent, the oldest first.
        self.unanswered: deque[Request] = deque()

    @property
    def pulse_s(self) -> float | None:
        """See `servers.Client`."""
        return None if self._pulse is None else self._pulse()

    def start(self) -> None:
        """Let requests and replies move."""
        if self._is_open:
            requests = self._ensemble.loop.create_task(self._carry_requests(), name="requests")
            replies = self._loop.create_task(self._carry_replies(), name="replies")
            self._tasks = [requests, replies]

    def send(self, request: Request) -> None:
        """Put a request on its way."""
        self.unanswered.append(request)
        self._out.put_nowait(request)

    def cut(self) -> None:
        """Lose all that is under way."""
        self._is_open = False
        for task in self._tasks:
            task.cancel()
        self._ensemble.detach(self, self.session_id)

    def notify(self, notifications: Sequence[Notification]) -> None:
        """The server sends watch events, ahead of every reply that is not yet on its way."""
        for notification in notifications:
            if any(is_at_or_below(root, notification.path) for root in self.roots):
                self._back.put_nowait(notification)

    def drop(self, why: str) -> None:
        """The server closes the connection; the client hears of it as soon as it can."""
        if self._is_open:
            log.debug("server %d closes a connection: %s", self.server.number, why)
            self.cut()
            self._loop.call_soon(self._on_drop, self)

    async def _carry_requests(self) -> None:
        while self._is_open:
            request = await self._out.get()
            # Whatever the other sessions do meanwhile comes first.
            await self._transit()
            self._ensemble.touch(self.session_id)
            if request.needs_leader and not self.server.is_linked:
                await self.server.linked.wait()
            self._serve(request)

    def _serve(self, request: Request) -> None:
        if self._injects_fault(request, Point.BEFORE):
            self.drop("cut before a request was executed")
            return
        reply = self._execute(request)
        fault = self._injects_fault(request, Point.AFTER)
        if fault is Fault.TOO_LARGE:
            reply = Reply(request, reply.zxid, error=TooLarge(f"{request.what}: the reply"))
        elif fault is Fault.CUT:
            self.drop("cut after a request was executed")
            return
        self._back.put_nowait(reply)

    def _injects_fault(self, request: Request, point: Point) -> Fault | None:
        return None if self._faults is None else self._faults(request, point)

    def _execute(self, request: Request) -> Reply:
        tree = self.server.tree
        if request.kind is Kind.SYNC:
            self.server.catch_up()
        try:
            value = request.perform(self.session_id, tree)
        except StoreError as error:
            return Reply(request, self.server.tree.zxid, error=error)
        request.executions += 1
        return Reply(request, self.server.tree.zxid, value)

    async def _carry_replies(self) -> None:
        while True:
            arrival = await self._back.get()
            # What the reply says may be out of date when it arrives.
            await self._transit()
            if isinstance(arrival, Reply):
                self.unanswered.popleft()
            self._on_arrival(arrival)
