"""Time of tests: a clock that they set, and an event loop that jumps to the next timer."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

# A clock that advances only when a test assigns its time.


class ManualClock:
    """A `broker_ctl.clock.Clock` that only a test moves.

    Attributes:
        time_s: the time, in seconds; assign to move the clock.
    """

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        """Monotonic time, in seconds."""
        return self.time_s

    def wall_ms(self) -> int:
        """Wall-clock time, in milliseconds."""
        return int(self.time_s * 1000)

    def cpu_s(self) -> float:
        """The same time, in seconds."""
        return self.time_s


# An event loop whose clock jumps to the next timer: hours pass at once and reproducibly.
#
# For programs in memory only: the loop does not wait for sockets or processes, and runs executor
# functions itself. A loop in which no task can continue and no timer runs raises RuntimeError
# instead of hanging.


_P = ParamSpec("_P")
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_START_S = 1_000.0


class _JumpingSelector(selectors.BaseSelector):
    def __init__(self) -> None:
        self._sockets = selectors.DefaultSelector()
        self.now_s = _START_S

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._sockets.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._sockets.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._sockets.select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("deadlock: every task waits, and no timer runs")
        self.now_s += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._sockets.get_map()

    def close(self) -> None:
        self._sockets.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop on virtual time, which starts at 1000 s."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual time, in seconds."""
        return self._jumping.now_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Call ``func`` in the loop: virtual time would pass while a thread works."""
        del executor

        async def work() -> _T:
            return func(*args)

        return self.create_task(work(), name="executor")


class LoopClock:
    """`broker_ctl.clock.Clock` on the time of the running loop."""

    def now_s(self) -> float:
        """Time of the running loop, in seconds."""
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        """The same time, in milliseconds."""
        return int(self.now_s() * 1000)

    def cpu_s(self) -> float:
        """The same time: no work takes any."""
        return self.now_s()


def in_virtual_time(
    test: Callable[_P, Coroutine[Any, Any, None]],
) -> Callable[_P, None]:
    """Decorate an async test so that it runs on a `VirtualLoop`."""

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
