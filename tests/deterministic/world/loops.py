"""Several event loops on one virtual clock, each of which can be stopped while the others go on.

A `ProcessLoop` is to a daemon what its process is: stop it, and none of its callbacks runs until it
goes on, late for all its timers. Nothing is drawn here and nothing depends on addresses in memory,
so that equal schedules run alike to the last callback.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from broker_ctl.core.machines.lease import LoopWatchdog

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_START_S = 1_000.0
_LEAST_S = 1e-6
_NO_THREAD = LoopWatchdog(0.0)
# Many times what any schedule needs.
_MOST_TURNS = 400_000
_numbers = count()


class _Handle:
    """A callback that waits for its turn."""

    __slots__ = ("_args", "_callback", "_context", "_is_cancelled", "loop", "when_s")

    def __init__(
        self,
        loop: "ProcessLoop",
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        when_s: float,
    ) -> None:
        self.loop = loop
        self.when_s = when_s
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._is_cancelled = False

    def __repr__(self) -> str:
        return f"{self._callback!r} of {self.loop.name}"

    def cancel(self) -> None:
        self._is_cancelled = True

    def cancelled(self) -> bool:
        return self._is_cancelled

    def when(self) -> float:
        return self.when_s

    def run(self) -> None:
        if not self._is_cancelled:
            self._context.run(self._callback, *self._args)


class _Task(asyncio.Task[_T]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class Turns:
    """Whose turn it is, over all loops; the clock jumps to the next timer.

    Args:
        most: turns, after which a run counts as one without end.
    """

    def __init__(self, most: int = _MOST_TURNS) -> None:
        self._most = most
        self.now_s = _START_S
        self.count = 0
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._order = count()

    def add(self, handle: _Handle) -> None:
        self._ready.append(handle)

    def add_timer(self, handle: _Handle) -> None:
        heapq.heappush(self._timers, (handle.loop.due_s(handle), next(self._order), handle))

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run callbacks of all loops until that holds."""
        running: ProcessLoop | None = None
        ready = self._ready
        try:
            while not is_over():
                handle = ready.popleft() if ready else self._next()
                loop = handle.loop
                if loop.is_stopped:
                    loop.backlog.append(handle)
                    continue
                if handle.when_s:
                    if loop.due_s(handle) > self.now_s:
                        # The machine was suspended meanwhile.
                        self.add_timer(handle)
                        continue
                    loop.reach(handle)
                if loop is not running:
                    asyncio._set_running_loop(loop)
                    running = loop
                    self.switched(loop)
                self.count += 1
                if self.count > self._most:
                    raise RuntimeError(f"busy without end: {handle}")
                handle.run()
        finally:
            asyncio._set_running_loop(None)

    def switched(self, loop: "ProcessLoop") -> None:
        """It is the turn of another loop than before."""

    def _next(self) -> _Handle:
        while not self._ready:
            if not self._timers:
                raise RuntimeError("deadlock: every task waits, and no timer runs")
            when_s, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self.now_s = max(self.now_s, when_s)
                return handle
        return self._ready.popleft()


class ProcessLoop(asyncio.AbstractEventLoop):
    """The loop of one process."""

    def __init__(self, turns: Turns, name: str) -> None:
        self._turns = turns
        self.name = name
        self.is_stopped = False
        self.is_blocked = False
        self.stopped_s = 0.0
        # How long its machine was suspended in all: timers of a loop do not count that time.
        self.asleep_s = 0.0
        self._reached_s = 0.0
        self._is_suspended = False
        self.backlog: deque[_Handle] = deque()
        self.failures: list[str] = []

    # As SIGSTOP and SIGCONT do.

    def stop_process(self) -> None:
        """Nothing of it runs any more."""
        self.is_stopped = True
        self.stopped_s = self._turns.now_s

    def suspend(self) -> None:
        """Its machine sleeps: neither it nor the clock of its timers runs."""
        self.stop_process()
        self._is_suspended = True

    def reach(self, handle: _Handle) -> None:
        """Its turn has come."""
        self._reached_s = max(self._reached_s, handle.when_s)

    def due_s(self, handle: _Handle) -> float:
        """When it is the turn of a handle, for all loops."""
        return handle.when_s + self.asleep_s

    def block(self) -> None:
        """It is busy, or has died; the threads of the process go on."""
        self.stop_process()
        self.is_blocked = True

    def continue_process(self) -> None:
        """It goes on with what it had to do; its timers are late, unless it was suspended."""
        if self._is_suspended:
            self.asleep_s += self._turns.now_s - self.stopped_s
        self.is_stopped = self.is_blocked = self._is_suspended = False
        while self.backlog:
            self._turns.add(self.backlog.popleft())

    def pulse_s(self, watchdog: LoopWatchdog = _NO_THREAD) -> float:
        """Until when it, or its thread of pings, has surely sent them."""
        if self.is_blocked:
            return watchdog.pings_until_s(self.stopped_s, self._turns.now_s)
        return self.stopped_s if self.is_stopped else self._turns.now_s

    # What asyncio asks of a loop.

    def time(self) -> float:
        # A timer that has fired is over, however the difference is rounded.
        # While the machine sleeps this clock stands: what arrives meanwhile is read when it wakes.
        now_s = self.stopped_s if self._is_suspended else self._turns.now_s
        return max(self._reached_s, now_s - self.asleep_s)

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        handle = _Handle(self, callback, args, context, 0.0)
        self._turns.add(handle)
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        handle = _Handle(self, callback, args, context, when)
        self._turns.add_timer(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        # A clock never stands still: without this, what is left to wait rounds to nothing for ever.
        delay = max(delay, _LEAST_S) if delay > 0 else 0.0
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[_T]":
        return _Task(coro, loop=self, name=name, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> "asyncio.Future[_T]":
        """In the loop: when a thread ends is up to nobody here."""
        del executor

        async def work() -> _T:
            return func(*args)

        return self.create_task(work(), name="executor")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task whose failure nobody heard of, or one that was destroyed while it waited."""
        self.failures.append(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")


def new_loop(turns: Turns, name: str) -> ProcessLoop:
    """A loop that has all that is ever asked of one here."""
    return ProcessLoop(turns, name)  # type: ignore[abstract]  # sockets and signals: none


class TurnsClock:
    """`broker_ctl.clock.Clock` of one process; the wall clock is a step away from the other."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.stepped_ms = 0

    def now_s(self) -> float:
        return self._turns.now_s

    def wall_ms(self) -> int:
        return int(self._turns.now_s * 1000) + self.stepped_ms

    def cpu_s(self) -> float:
        return self._turns.now_s
