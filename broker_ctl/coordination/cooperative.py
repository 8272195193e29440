"""Long work beside the event loop: everybody else has a turn between two steps."""

import asyncio
from typing import TypeVar

from broker_ctl.core.model.steps import Steps

_T = TypeVar("_T")


async def run_cooperatively(steps: Steps[_T]) -> _T:
    """The result of ``steps``; what it works on must not change meanwhile."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _T = stop.value
            return result
        await asyncio.sleep(0)
