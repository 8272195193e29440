"""One connection between a store and the ensemble: two one-way streets, each in order.

A request is executed at the far end of the first, at one instant; its reply comes back on the
second, behind the watch events of whatever was committed before it. A cut loses what is under way.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_ctl.errors import StoreError
from broker_ctl.store.interface import Notification, Operation, Result
from broker_ctl.store.path_rules import is_at_or_below
from broker_ctl.tasks import TaskScope

Transit = Callable[[], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Request:
    """A request, and how far it came.

    Attributes:
        perform: what the server does, given the session's id.
        operations: what it writes; empty for a read.
        is_sent: whether a connection has ever taken it.
        zxid_before: the newest zxid that the client had seen when it sent the request.
        results: what a write did, kept for when its reply is lost.
    """

    what: str
    perform: Callable[[int], Any]
    operations: Sequence[Operation] = ()
    future: "asyncio.Future[Any]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(),
    )
    is_sent: bool = False
    zxid_before: int = 0
    results: tuple[Result, ...] | None = None

    def answer(self, value: Any) -> None:
        """Settle it, unless its caller has given up."""
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: StoreError) -> None:
        """Settle it, unless its caller has given up."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes back, and the server's newest zxid at that moment."""

    request: Request
    zxid: int
    value: Any = None
    error: StoreError | None = None


@dataclass(slots=True, eq=False)
class Link:
    """A connection, from when the server took it until it is cut.

    Attributes:
        newest_zxid: asks the server.
        on_arrival: hears replies and watch events, in order.
        on_drop: hears that the server closed the connection, and why.
        roots: what is watched over this connection.
        unanswered: requests that were sent, the oldest first.
    """

    transit: Transit
    newest_zxid: Callable[[], int]
    on_arrival: Callable[[Reply | Notification], None]
    on_drop: Callable[[str], None]
    session_id: int = 0
    roots: set[str] = field(default_factory=set)
    unanswered: deque[Request] = field(default_factory=deque)
    _out: "asyncio.Queue[Request]" = field(default_factory=asyncio.Queue)
    _back: "asyncio.Queue[Reply | Notification]" = field(default_factory=asyncio.Queue)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def start(self, tasks: TaskScope) -> None:
        """Let requests and replies move."""
        self._tasks = [
            tasks.start(self._carry_requests(), "requests"),
            tasks.start(self._carry_replies(), "replies"),
        ]

    def send(self, request: Request) -> None:
        """Put a request on its way."""
        self.unanswered.append(request)
        self._out.put_nowait(request)

    def cut(self) -> None:
        """Lose all that is under way."""
        for task in self._tasks:
            task.cancel()

    def notify(self, notifications: Sequence[Notification]) -> None:
        """The server sends watch events, ahead of every reply that is not yet on its way."""
        for notification in notifications:
            if any(is_at_or_below(root, notification.path) for root in self.roots):
                self._back.put_nowait(notification)

    def drop(self, why: str) -> None:
        """The server closes the connection."""
        self.on_drop(why)

    async def _carry_requests(self) -> None:
        while True:
            request = await self._out.get()
            # Whatever the other sessions do meanwhile comes first.
            await self.transit()
            self._back.put_nowait(self._execute(request))

    def _execute(self, request: Request) -> Reply:
        try:
            value = request.perform(self.session_id)
        except StoreError as error:
            return Reply(request, self.newest_zxid(), error=error)
        if request.operations:
            request.results = value
        return Reply(request, self.newest_zxid(), value)

    async def _carry_replies(self) -> None:
        while True:
            arrival = await self._back.get()
            # What the reply says may be out of date when it arrives.
            await self.transit()
            if isinstance(arrival, Reply):
                self.unanswered.popleft()
            self.on_arrival(arrival)
