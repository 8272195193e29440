"""Long computations beside the event loop: plain functions in a thread of their own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerThread:
    """One thread that runs one function after another.

    A thread cannot be cancelled. If the caller is cancelled, a function that runs goes on to its
    end and its result is dropped; one that waits is never run. The next function starts when the
    one before has returned, so that no two of them, of whatever callers, run at the same time.

    The event loop goes on meanwhile: what a function is given must not be changed by anybody.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The result of the function, or what it raises."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, *args, **kwargs))
