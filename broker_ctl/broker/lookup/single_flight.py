"""Concurrent calls with the same key share one execution."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from broker_ctl.tasks import TaskScope

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class SingleFlight(Generic[_K, _T]):
    """Executions in progress, by key.

    Each is a task of its own: if the first caller is cancelled, the others still get the result.
    """

    def __init__(self, owner: str) -> None:
        self._tasks = TaskScope(owner)
        self._in_flight: dict[_K, asyncio.Task[_T]] = {}

    def __len__(self) -> int:
        return len(self._in_flight)

    async def do(self, key: _K, work: Callable[[], Coroutine[Any, Any, _T]], name: str) -> _T:
        """The result of ``work``, or of the execution already under way for the key."""
        task = self._in_flight.get(key)
        if task is None:
            task = self._tasks.start(work(), name, is_joined=True)
            self._in_flight[key] = task
            task.add_done_callback(lambda _: self._in_flight.pop(key))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel the executions in progress."""
        await self._tasks.close()
