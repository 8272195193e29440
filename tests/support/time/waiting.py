"""Waiting for a condition with a deadline, in place of sleeping."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, overload

_T = TypeVar("_T")

# For what takes no time on a machine that is idle: a bound on what hangs, not on what is slow.
PATIENCE_S: Final = 60.0


@overload
async def eventually(
    condition: Callable[[], Awaitable[_T | None]],
    deadline_s: float = ...,
    what: str = ...,
    poll_s: float = ...,
) -> _T: ...


@overload
async def eventually(
    condition: Callable[[], _T | None],
    deadline_s: float = ...,
    what: str = ...,
    poll_s: float = ...,
) -> _T: ...


async def eventually(
    condition: Callable[[], Awaitable[_T | None] | _T | None],
    deadline_s: float = PATIENCE_S,
    what: str = "",
    poll_s: float = 0.02,
) -> _T:
    """The first truthy answer of ``condition``.

    Raises:
        AssertionError: there was none within ``deadline_s``; the last answer is in the message.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        answer = condition()
        value: _T | None = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if loop.time() > end:
            raise AssertionError(
                f"not within {deadline_s} s: {what or condition} (last: {value!r})"
            )
        await asyncio.sleep(poll_s)
