"""Requests that fall due whether or not the earlier ones have come back: an open loop.

Loops that wait for a reply before they ask again leave out just the requests that would have met
a slow moment. Here the time of a request counts from when it was due, so what is late in being
sent counts too.
"""

import asyncio
import ctypes
import itertools
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

_CLOCK_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
_NS: Final = 1_000_000_000

now_s = time.monotonic


class _Timer:
    """A timer of the kernel (timerfd). Those of uvloop are a whole millisecond coarse."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._loop = asyncio.get_running_loop()
        self._fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, _FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    async def wait_until(self, due_s: float) -> None:
        """Return as soon as the time has come."""
        # struct itimerspec: no interval, then the first time.
        spec = (ctypes.c_long * 4)(0, 0, *divmod(max(1, int(due_s * _NS)), _NS))
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        came = self._loop.create_future()
        self._loop.add_reader(self._fd, came.set_result, None)
        try:
            await came
        finally:
            # It stays readable until it is set again.
            self._loop.remove_reader(self._fd)

    def close(self) -> None:
        """Give it back."""
        os.close(self._fd)


async def pace(dues_s: Iterable[float], act: Callable[[float], object]) -> None:
    """Call ``act`` with each due time when it has come; those that were missed, at once."""
    timer = _Timer()
    try:
        for due_s in dues_s:
            if due_s > now_s():
                await timer.wait_until(due_s)
            act(due_s)
    finally:
        timer.close()


async def ask_open_loop(dues_s: Iterable[float], ask: Callable[[], Awaitable[None]]) -> list[float]:
    """Start ``ask`` at each due time; how long each took from then on, in seconds."""
    took_s: list[float] = []

    async def one(due_s: float) -> None:
        await ask()
        took_s.append(now_s() - due_s)

    async with asyncio.TaskGroup() as asked:
        await pace(dues_s, lambda due_s: asked.create_task(one(due_s), name="request"))
    return took_s


def arrivals(rate: float, rng: random.Random) -> Iterator[float]:
    """Due times from now on, ``rate`` a second on average, as independent callers come (Poisson).

    Evenly spaced ones would never meet at 5 op/s and never pile up at 5,000, at any server.
    """
    return itertools.accumulate(
        iter(lambda: rng.expovariate(rate), None), initial=now_s() + rng.expovariate(rate)
    )


def every(period_s: float) -> Iterator[float]:
    """Evenly spaced due times from now on."""
    return itertools.count(now_s() + period_s, period_s)
