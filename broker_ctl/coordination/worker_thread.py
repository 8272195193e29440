"""Long computations off the event loop: plain functions in a thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerThread:
    """A thread that runs one function after the other.

    A thread cannot be cancelled. If a caller is cancelled, its running function still completes and
    the result is dropped; a queued function does not run. The next function starts after the
    previous one has returned, so no two functions run at the same time.

    The event loop runs meanwhile: a function's arguments must not be modified by anyone.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run the function; returns its result, or raises its error."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, *args, **kwargs))
