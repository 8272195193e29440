"""Limits of the requests in progress: their number, their duration, their turns."""

import asyncio
from collections import OrderedDict
from itertools import islice
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.route_rules import Access, Exempt
from broker_ctl.api.http.responses import ApiError
from broker_ctl.clock import Clock
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.instruments.kinds import Histogram

# The lag of the event loop: how late a timer fires.


_PERIOD_S: Final = 0.25


class LoopLag:
    """Measures the lag four times a second; heartbeats are late by as much.

    Args:
        limit_s: a lag above it, twice in succession, is high; once may be a garbage collection.
    """

    def __init__(self, clock: Clock, observed: Histogram, limit_s: float) -> None:
        self._clock = clock
        self._observed = observed
        self._limit_s = limit_s
        self._was_above = False
        self.is_high = False

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            due_s = self._clock.now_s() + _PERIOD_S
            await asyncio.sleep(_PERIOD_S)
            lag_s = max(0.0, self._clock.now_s() - due_s)
            self._observed.observe(lag_s)
            is_above = lag_s > self._limit_s
            self.is_high = is_above and self._was_above
            self._was_above = is_above


# Requests take turns with the other work of the event loop, above all the session's heartbeats.
#
# Each iteration of the loop starts requests for a bounded time; any further ones wait for one of
# the next iterations, and their connections are not read meanwhile. A handler that does not wait
# for anything runs to its end, so the longest iteration has one such handler more.
#
# Commands and health checks wait in a queue of their own, which goes first: they are answered
# quickly however many clients there are.


# Some 40 requests. A heartbeat takes a few iterations.
_TURN_S: Final = 0.010
# More requests than that do not fit into a turn.
_MAX_WOKEN: Final = 64


class Turns:
    """Decides in which iteration of the loop a request is started; in the order of arrival."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._urgent = _WaitingRequests()
        self._others = _WaitingRequests()
        self._is_begun = False
        self._is_unused = True
        self._ends_s = 0.0

    def take(self) -> bool:
        """Whether a request may start now: nobody waits, and the turn has time left."""
        if self._urgent or self._others:
            return False
        if not self._is_begun:
            self._begin()
        return self._has_time()

    async def wait(self, *, is_urgent: bool) -> float:
        """Wait for a turn; the number of seconds that it took.

        Other requests are answered meanwhile, and this one's client may have left.
        """
        began_s = self._clock.now_s()
        if not self._is_begun:
            self._begin()
        waiting = self._urgent if is_urgent else self._others
        # Urgent requests wait for each other only, and for the time that the turn has.
        if not (is_urgent and not waiting and self._has_time()):
            await self._queue(waiting)
        return self._clock.now_s() - began_s

    async def _queue(self, waiting: "_WaitingRequests") -> None:
        place = object()
        woken = waiting[place] = asyncio.get_running_loop().create_future()
        try:
            while True:
                await woken
                if self._has_time():
                    return
                # The same place, at the front of the queue.
                woken = waiting[place] = asyncio.get_running_loop().create_future()
        finally:
            del waiting[place]

    def _has_time(self) -> bool:
        """Whether the turn has time for one more, which it always has for the first."""
        if self._is_unused:
            self._is_unused = False
            return True
        return self._clock.now_s() < self._ends_s

    def _begin(self) -> None:
        self._is_begun = self._is_unused = True
        self._ends_s = self._clock.now_s() + _TURN_S
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        """Run at the start of the next iteration: the next turn begins with those who wait."""
        self._is_begun = False
        if not self._urgent and not self._others:
            return
        self._begin()
        # The urgent ones first: the loop resumes tasks in this order.
        for waiting in (self._urgent, self._others):
            for woken in islice(waiting.values(), _MAX_WOKEN):
                if not woken.done():
                    woken.set_result(None)


class _WaitingRequests(OrderedDict[object, asyncio.Future[None]]):
    """Requests in the order of arrival. A dict that shrinks at its front is slow to iterate."""


# What happens to a request for which the event loop has no time at once.


# A request that waited longer is not worth the work: clients give up, and probes have failed.
_MAX_WAIT_S: Final = 5.0
_REASON: Final = "this broker has more requests than it can answer"
_READS: Final = frozenset({"GET", "HEAD"})
_HEALTH: Final = frozenset(
    {"/livez", "/readyz", "/admin/v2/brokers/health", "/admin/v2/brokers/ready", "/status.html"}
)
# The leader's commands, and the lease of the broker process: the cluster is lost without them.
_COMMANDS: Final = "/control/"
_LEASE: Final = "/dataplane/"


class Overload:
    """Turns for requests, and their rejection while heartbeats may be late."""

    def __init__(self, turns: Turns, lag: LoopLag) -> None:
        self.turns = turns
        self._lag = lag

    async def wait(self, request: web.BaseRequest) -> web.Response | None:
        """Wait for a turn; the rejection of the request, or None.

        Only requests that have to wait are rejected: a lag that other processes cause would not
        become less. Commands, leases and health checks never are.
        """
        if _is_urgent(request):
            await self.turns.wait(is_urgent=True)
            return None
        waited_s = await self.turns.wait(is_urgent=False)
        if self._lag.is_high or waited_s > _MAX_WAIT_S:
            return responses.error(503, "Busy", _REASON)
        return None


def _is_urgent(request: web.BaseRequest) -> bool:
    path = request.path
    if path.startswith(_COMMANDS):
        return request.method not in _READS
    return path in _HEALTH or path.startswith(_LEASE)


# Limits of the number of requests in progress.


# Pulsar's clients give a lookup up after 30 s. Actions have shorter deadlines of their own: this
# limit only ends requests that hang. The action itself goes on.
_READ_LIMIT_S: Final = 30.0
_ACTION_LIMIT_S: Final = 300.0

_CLIENT_PATHS: Final = ("/lookup/", "/admin/", "/partitions/")
# The updates of pages have a limit of their own, well below this one.
_MOST_OF_CONSOLE: Final = 256


class ConcurrencyLimit:
    """At most ``limit`` at a time; any further one is rejected, never queued.

    The limit is its own context manager: a lookup passes two limits and lasts some 50 us in all.

    Attributes:
        refused: how many were rejected so far.
    """

    def __init__(self, subject: str, limit: int) -> None:
        self._subject = subject
        self.limit = limit
        self.in_flight = 0
        self.refused = 0

    def show(self, bounds: BoundInstruments, name: str) -> None:
        """Show it under this name."""
        bounds.follow(
            name,
            used=lambda: self.in_flight,
            limit=lambda: self.limit,
            refused=lambda: self.refused,
        )

    def held(self) -> Self:
        """Count one for the duration of the block.

        Raises:
            ApiError: 503, the limit is reached.
        """
        return self

    def __enter__(self) -> None:
        if self.in_flight >= self.limit:
            self.refused += 1
            raise ApiError(503, f"{self.limit} {self._subject} are in progress", kind="Busy")
        self.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1


class RequestClasses:
    """Limits of requests in progress, so that those of one kind never block those of another.

    A request has no place before it is known who sends it. The exceptions are what is open to
    everybody: health, metrics and the lease of the broker process, which are answered without
    waiting for anything, and the console, which waits for its own requests to the API.
    """

    def __init__(self, limit: int) -> None:
        self.clients = ConcurrencyLimit("requests of clients", limit)
        self.brokers = ConcurrencyLimit("requests", limit)
        self.probes = ConcurrencyLimit("probes", limit)
        self.console = ConcurrencyLimit("requests to the console", min(limit, _MOST_OF_CONSOLE))
        self._of_exempt = {
            Exempt.HEALTH: self.probes,
            Exempt.METRICS: self.probes,
            Exempt.DATA_PLANE: self.probes,
            Exempt.CONSOLE: self.console,
        }
        self.is_closed = False

    @property
    def by_name(self) -> dict[str, ConcurrencyLimit]:
        """The limits, by the names that metrics have for them."""
        return {
            "clients": self.clients,
            "brokers": self.brokers,
            "probes": self.probes,
            "console": self.console,
        }

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return sum(limit.in_flight for limit in self.by_name.values())

    def close(self) -> None:
        """Reject all further requests."""
        self.is_closed = True

    def of(self, request: web.Request, access: Access) -> tuple[ConcurrencyLimit, float]:
        """The limit that counts a request, and its maximum duration in seconds.

        Raises:
            ApiError: 503, the broker is shutting down.
        """
        if self.is_closed:
            raise ApiError(503, "this broker is shutting down", kind="Draining")
        limit_s = _READ_LIMIT_S if request.method in _READS else _ACTION_LIMIT_S
        # Most requests are of clients, by a rule.
        limit = None if access.__class__ is not Exempt else self._of_exempt.get(access)
        if limit is None:
            # The path that was matched with the routes.
            is_client = request.rel_url.path_safe.startswith(_CLIENT_PATHS)
            limit = self.clients if is_client else self.brokers
        return limit, limit_s


# Limits of the duration of requests.


class Deadlines:
    """Deadlines of one server's requests.

    Most requests never wait, and a timer for each would cost more than many responses. Requests of
    one limit expire in the order of their start, so one timer serves them all: it waits for the
    oldest in progress, and is set again when it fires.
    """

    def __init__(self) -> None:
        self._queues: dict[float, _Queue] = {}

    def within(self, limit_s: float) -> "Deadline":
        """A block that is cancelled after ``limit_s`` seconds.

        Raises:
            ApiError: 503, the block did not end in time.
        """
        queue = self._queues.get(limit_s)
        if queue is None:
            queue = self._queues[limit_s] = _Queue(limit_s, asyncio.get_running_loop())
        return Deadline(queue)

    def close(self) -> None:
        """Stop ending requests."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()


class Deadline:
    """See `Deadlines.within`.

    As with `asyncio.timeout`, only a cancellation of its own becomes another error.
    """

    __slots__ = ("_cancelling", "_is_expired", "_queue", "_task", "due_s")

    def __init__(self, queue: "_Queue") -> None:
        self._queue = queue
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_expired = False
        self.due_s = 0.0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a block with a deadline must run in a task")
        self._task, self._cancelling = task, task.cancelling()
        self._queue.add(self)

    def expire(self) -> None:
        """Cancel the block."""
        if self._task is not None:
            self._is_expired = True
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._queue.discard(self)
        if task is None or not self._is_expired:
            return
        # A cancellation by other code is kept.
        is_own = task.uncancel() <= self._cancelling
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            limit_s = self._queue.limit_s
            raise ApiError(503, f"not done within {limit_s:g} s", kind="Timeout") from None


class _Queue:
    """Blocks in progress under one limit, oldest first."""

    def __init__(self, limit_s: float, loop: asyncio.AbstractEventLoop) -> None:
        self.limit_s = limit_s
        self._loop = loop
        self._in_progress: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Deadline) -> None:
        one.due_s = self._loop.time() + self.limit_s
        self._in_progress[one] = None
        if self._timer is None:
            self._timer = self._loop.call_at(one.due_s, self._sweep)

    def discard(self, one: Deadline) -> None:
        self._in_progress.pop(one, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for one in tuple(self._in_progress):
            if one.due_s > now_s:
                self._timer = self._loop.call_at(one.due_s, self._sweep)
                return
            self.discard(one)
            one.expire()
