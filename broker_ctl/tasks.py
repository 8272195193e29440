"""Tasks have a name and an owner.

Work that stands and falls together is started in an `asyncio.TaskGroup`. What outlives the call
that started it (a reconnect, a revalidation) belongs to a `TaskScope`, which its owner closes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class TaskScope:
    """Background tasks that end with their owner.

    Unlike in a TaskGroup, the failure of one task does not cancel its siblings: it is logged
    with the task's name, and counted in ``failures``.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self.failures = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self,
        work: Coroutine[Any, Any, _T],
        name: str,
        *,
        is_joined: bool = False,
    ) -> asyncio.Task[_T]:
        """Run ``work`` as a task called ``owner: name``.

        With ``is_joined`` its failure is an answer for whoever awaits the task, and no fault.

        Raises:
            RuntimeError: the scope is closed; the work is not started.
        """
        if self._is_closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed: {name} not started")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._joined_ended if is_joined else self._ended)
        return task

    def _joined_ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever joined may have gone away; then the answer is for nobody.
            task.exception()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures += 1
            log.error("task %s failed: %s", task.get_name(), error, exc_info=error)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        self._is_closed = True
        # A task that ends may not start another any more, so one round is enough. A task that
        # closes its own scope must not wait for itself.
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def wait_until(
    condition: Callable[[], Awaitable[bool]],
    limit_s: float,
    poll_s: float = 0.1,
) -> bool:
    """Ask again and again until it holds; False when it did not within the limit."""
    try:
        async with asyncio.timeout(limit_s):
            while True:
                if await condition():
                    return True
                await asyncio.sleep(poll_s)
    except TimeoutError:
        return False
