"""The transport of the store in memory: requests on their way, faults, and stalls."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol

from broker_ctl.errors import StoreError, TooLarge
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.servers import MemoryServer
from broker_ctl.store.in_process.tree import Tree
from broker_ctl.store.interface import Create, Delete, Notification, Operation, SetData, StallWrite
from broker_ctl.store.zookeeper.connection import Xids

log = logging.getLogger(__name__)

# Writes of a client whose event loop does not run, as a thread beside it sends them.
#
# They run in the ensemble's loop. One is sent when the one before has been answered, which a real
# thread does not wait for; each message takes the same time.


_LOOK_S: Final = 0.1
_TRANSIT_S: Final = 0.001


class _Link(Protocol):
    """The connection of the client."""

    server: MemoryServer
    session_id: int
    xids: Xids

    @property
    def pulse_s(self) -> float | None: ...

    @property
    def is_open(self) -> bool: ...


class StallThread:
    """The thread of one connection after the other.

    Args:
        is_busy: whether the client's loop does not run.
    """

    def __init__(self, ensemble: MemoryEnsemble, is_busy: Callable[[], bool]) -> None:
        self._ensemble = ensemble
        self._is_busy = is_busy
        self.write: StallWrite | None = None

    async def run(self, link: _Link, deliver: Callable[[Callable[[], None]], object]) -> None:
        """Write until cancelled; ``deliver`` calls a function in the client's loop."""
        loop, wrote_s, was_busy = self._ensemble.loop, 0.0, False
        while True:
            await asyncio.sleep(_LOOK_S)
            is_late, was_busy = was_busy and self._is_busy(), self._is_busy()
            write, now_s = self.write, loop.time()
            is_allowed = is_late and link.pulse_s is not None and link.pulse_s >= now_s
            if write is None or not is_allowed or now_s < wrote_s + write.period_s:
                continue
            wrote_s = now_s
            if await self._is_committed(link, write):
                deliver(_report(link, write, wrote_s, loop.time()))

    async def _is_committed(self, link: _Link, write: StallWrite) -> bool:
        """Carry the write to the server and its reply back; whether it was applied."""
        await asyncio.sleep(_TRANSIT_S)
        self._ensemble.touch(link.session_id)
        await link.server.linked.wait()
        xid, proposals = link.xids.next(), self._ensemble.proposals

        def commit() -> bool:
            with contextlib.suppress(StoreError):
                self._ensemble.write(link.session_id, [write.write])
                return True
            return False

        is_held = proposals.are_held
        outcome = await proposals.propose(link.session_id, xid, commit) if is_held else commit()
        await asyncio.sleep(_TRANSIT_S)
        return outcome is True


def _report(link: _Link, write: StallWrite, sent_s: float, answered_s: float) -> Callable[[], None]:
    def report() -> None:
        # Replies of a connection that has ended are not read.
        if link.is_open:
            write.on_committed(sent_s, answered_s)

    return report


# One connection between a store and a server: two ordered channels.
#
# A request is executed at the server, at one instant; its reply comes back behind the watch
# events of everything that was committed before it. A cut loses all messages in transit. The
# channel to the server runs in the ensemble's loop, the one back in the store's: requests of a
# process that is stopped are still executed, and it gets their replies when it continues.


Transit = Callable[[], Awaitable[None]]


class RequestKind(StrEnum):
    """Kinds of requests, which fail differently."""

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


class FaultPoint(StrEnum):
    """Where a connection may be cut.

    Before a request is executed, or between that and its reply.
    """

    BEFORE = "before"
    AFTER = "after"


class Fault(StrEnum):
    """A fault of a request at a server.

    CUT: the connection is closed. TOO_LARGE: the reply is too large, for which the client closes
    the connection.
    """

    CUT = "cut"
    TOO_LARGE = "too large"


@dataclass(slots=True, eq=False)
class MemoryRequest:
    """A request and its progress.

    Attributes:
        perform: executes the request, given the session's id and the server's state.
        operations: its writes; empty for a read.
        is_sent: whether it was ever sent over a connection.
        session_id: the session that sent it.
        zxid_before: the newest zxid that the client had observed when it sent the request.
        xid: its number on the connection.
        executions: how often it was executed. Twice would be a bug of the pipeline.
    """

    what: str
    perform: Callable[[int, Tree], Any]
    kind: RequestKind = RequestKind.READ
    operations: Sequence[Operation] = ()
    future: "asyncio.Future[Any]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(),
    )
    is_sent: bool = False
    session_id: int = 0
    zxid_before: int = 0
    xid: int = 0
    executions: int = 0

    @property
    def needs_leader(self) -> bool:
        """Whether a follower cannot answer it alone."""
        return bool(self.operations) or self.kind in {RequestKind.SYNC, RequestKind.CLOSE_SESSION}

    def answer(self, value: Any) -> None:
        """Settle it, unless its caller has given up."""
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: StoreError) -> None:
        """Settle it, unless its caller has given up."""
        if not self.future.done():
            self.future.set_exception(error)


# Called for every request at both points; None: no fault.
Faults = Callable[[MemoryRequest, FaultPoint], Fault | None]


def kind_of(operations: Sequence[Operation]) -> RequestKind:
    """The kind of a write."""
    match operations:
        case [Create(mode=mode)] if mode.is_sequential:
            kind = RequestKind.CREATE_SEQUENTIAL
        case [Create(mode=mode)] if mode.is_ephemeral:
            kind = RequestKind.CREATE_EPHEMERAL
        case [Create()]:
            kind = RequestKind.CREATE
        case [SetData()]:
            kind = RequestKind.SET
        case [Delete()]:
            kind = RequestKind.DELETE
        case _:
            kind = RequestKind.MULTI
    return kind


@dataclass(frozen=True, slots=True)
class Reply:
    """A result, and the server's newest zxid at that moment."""

    request: MemoryRequest
    zxid: int
    value: Any = None
    error: StoreError | None = None


class MemoryTransport:
    """A connection, from its acceptance by a server until it is cut.

    Args:
        transit: awaited for each message on its way.
        xids: of the session.
        faults: faults at the server; None: none.
        on_arrival: called with replies and watch events, in order.
        on_drop: called when the server has closed the connection.
        pulse: see `servers.Client.pulse_s`; None: the client never stops.
        stalls: writes while the client does not run; None: nothing does.
        is_batching: what waits to be sent to the client travels together.
    """

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        transit: Transit,
        xids: Xids,
        *,
        faults: Faults | None = None,
        on_arrival: Callable[[Reply | Notification], None],
        on_drop: Callable[["MemoryTransport"], None],
        pulse: Callable[[], float] | None = None,
        stalls: StallThread | None = None,
        is_batching: bool = False,
    ) -> None:
        self._ensemble = ensemble
        self._transit = transit
        self.xids = xids
        self._faults = faults
        self._on_arrival = on_arrival
        self._on_drop = on_drop
        self._pulse = pulse
        self._stalls = stalls
        self._is_batching = is_batching
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.Queue[MemoryRequest] = asyncio.Queue()
        # What travels together. An event is put there for each of many clients: a bare table and a
        # signal take a third of the time of a queue.
        self._back: deque[Sequence[Reply | Notification]] = deque()
        self._has_back = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        # Requests behind proposals that are held, and these.
        self._pending: list[asyncio.Task[None]] = []
        self._is_open = True
        # Session id that the server set when it accepted the connection.
        self.server = ensemble.leader
        self.session_id = 0
        # As granted; the client has not heard of it before it has adopted the connection.
        self.timeout_s = 0.0
        # Roots that are watched over this connection.
        self.roots: set[str] = set()
        # Unanswered requests, the oldest first.
        self.unanswered: deque[MemoryRequest] = deque()

    @property
    def pulse_s(self) -> float | None:
        """See `servers.Client`."""
        return None if self._pulse is None else self._pulse()

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended it."""
        return self._is_open

    def start(self) -> None:
        """Start to deliver requests and replies."""
        if self._is_open:
            requests = self._ensemble.loop.create_task(self._carry_requests(), name="requests")
            replies = self._loop.create_task(self._carry_replies(), name="replies")
            self._tasks = [requests, replies]
            if self._stalls is not None:
                writes = self._stalls.run(self, self._loop.call_soon)
                self._tasks.append(self._ensemble.loop.create_task(writes, name="stall writes"))

    def send(self, request: MemoryRequest) -> None:
        """Send a request."""
        request.xid = self.xids.next()
        self.unanswered.append(request)
        self._out.put_nowait(request)

    def cut(self) -> None:
        """Cut the connection; all messages in transit are lost."""
        self._is_open = False
        for task in (*self._tasks, *self._pending):
            task.cancel()
        self._ensemble.detach(self, self.session_id)

    def notify(self, notifications: Sequence[Notification]) -> None:
        """Send watch events, ahead of every reply that is not in transit yet."""
        if self._is_batching:
            self._back.append(notifications)
        else:
            self._back.extend((notification,) for notification in notifications)
        if not self._has_back.is_set():
            self._has_back.set()

    def watch(self, root: str) -> None:
        """The server notifies it of changes there and below."""
        self.roots.add(root)
        self.server.watch(self, root)

    def unwatch(self, root: str) -> None:
        """It does so no more."""
        self.roots.discard(root)
        self.server.unwatch(self, root)

    def drop(self, why: str) -> None:
        """Close the connection from the server's side.

        The client learns of it as soon as it runs.
        """
        if self._is_open:
            log.debug("server %d closes a connection: %s", self.server.number, why)
            self.cut()
            self._loop.call_soon(self._on_drop, self)

    async def _carry_requests(self) -> None:
        while self._is_open:
            request = await self._out.get()
            # Actions of the other sessions meanwhile come first.
            await self._transit()
            self._ensemble.touch(self.session_id)
            if request.needs_leader and not self.server.is_linked:
                await self.server.linked.wait()
            self._pending = [task for task in self._pending if not task.done()]
            if self._is_held(request):
                self._pending.append(self._start(self._serve(request)))
            elif self._pending:
                self._pending.append(self._start(self._serve_behind(request, *self._pending)))
            else:
                await self._serve(request)

    def _start(self, serving: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return self._ensemble.loop.create_task(serving, name="pending request")

    async def _serve_behind(self, request: MemoryRequest, *pending: "asyncio.Task[None]") -> None:
        """A server proposes each write as it comes; all else waits for what came before."""
        await asyncio.wait(pending)
        await self._serve(request)

    def _is_held(self, request: MemoryRequest) -> bool:
        return request.needs_leader and self._ensemble.proposals.are_held

    async def _serve(self, request: MemoryRequest) -> None:
        if self._injects_fault(request, FaultPoint.BEFORE):
            self.drop("cut before a request was executed")
            return
        reply = await self._reply_to(request)
        fault = self._injects_fault(request, FaultPoint.AFTER)
        if fault is Fault.TOO_LARGE:
            reply = Reply(request, reply.zxid, error=TooLarge(f"{request.what}: the reply"))
        elif fault is Fault.CUT:
            self.drop("cut after a request was executed")
            return
        self._back.append((reply,))
        self._has_back.set()

    def _injects_fault(self, request: MemoryRequest, point: FaultPoint) -> Fault | None:
        return None if self._faults is None else self._faults(request, point)

    async def _reply_to(self, request: MemoryRequest) -> Reply:
        """Its reply, or that of another one of the session with the same number."""
        proposals, commit = self._ensemble.proposals, partial(self._execute, request)
        if not self._is_held(request):
            return commit()
        outcome = await proposals.propose(self.session_id, request.xid, commit)
        await self.server.linked.wait()
        if isinstance(outcome, Reply):
            return replace(outcome, request=request)
        return Reply(request, self.server.tree.zxid)

    def _execute(self, request: MemoryRequest) -> Reply:
        tree = self.server.tree
        if request.kind is RequestKind.SYNC:
            self.server.catch_up()
        try:
            value = request.perform(self.session_id, tree)
        except StoreError as error:
            return Reply(request, self.server.tree.zxid, error=error)
        request.executions += 1
        return Reply(request, self.server.tree.zxid, value)

    async def _carry_replies(self) -> None:
        while True:
            while not self._back:
                self._has_back.clear()
                await self._has_back.wait()
            arrivals = list(self._back.popleft())
            while self._is_batching and self._back:
                arrivals.extend(self._back.popleft())
            # The reply may be out of date when it arrives.
            await self._transit()
            for arrival in arrivals:
                # A listener may have cut it.
                if not self._is_open:
                    return
                if isinstance(arrival, Reply):
                    self.unanswered.popleft()
                self._on_arrival(arrival)
