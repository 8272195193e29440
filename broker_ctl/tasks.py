"""Tasks have a name and an owner.

Work that stands and falls together is started in an `asyncio.TaskGroup`. What outlives the call
that started it (a reconnect, a revalidation) belongs to a `TaskScope`, which its owner closes.
Faults of such tasks are told to the `TaskFaults` of the daemon in whose context they were started.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group that is none itself: what a log should say."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


class TaskFaults:
    """What went wrong in the background of one daemon.

    Attributes:
        failures: tasks that failed, joined ones aside.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._dead: dict[object, list[str]] = {}

    @property
    def dead(self) -> tuple[str, ...]:
        """Names of tasks that have failed and are missed: `TaskScope.keep` started them."""
        return tuple(name for names in self._dead.values() for name in names)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Hear of each task that is started in here, by whomever."""
        token = _FAULTS.set(self)
        try:
            yield
        finally:
            _FAULTS.reset(token)

    def record_failure(self, scope: object, name: str, *, is_missed: bool) -> None:
        """Count a failure."""
        self.failures += 1
        if is_missed:
            self._dead.setdefault(scope, []).append(name)

    def forget_scope(self, scope: object) -> None:
        """Nobody misses the tasks of a scope that has ended."""
        self._dead.pop(scope, None)


_FAULTS: ContextVar[TaskFaults | None] = ContextVar("faults of background tasks", default=None)


class TaskScope:
    """Background tasks that end with their owner.

    Unlike in a TaskGroup, the failure of one task does not cancel its siblings: it is logged
    with the task's name, and told to the `TaskFaults` of the daemon.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        # In the order in which they were started: they are cancelled in it.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._is_closed = False
        self._faults: TaskFaults | None = None

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
        return self._start(work, name, self._on_joined_end if is_joined else self._on_end)

    def keep(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """As `start`, for work that goes on as long as the scope: where it fails, it is missed.

        Raises:
            RuntimeError: the scope is closed; the work is not started.
        """
        return self._start(work, name, self._on_kept_end)

    def _start(
        self,
        work: Coroutine[Any, Any, _T],
        name: str,
        on_end: Callable[[asyncio.Task[Any]], None],
    ) -> asyncio.Task[_T]:
        if self._is_closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed: {name} not started")
        self._faults = _FAULTS.get()
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}: {name}")
        self._tasks[task] = None
        task.add_done_callback(on_end)
        return task

    def _on_joined_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            # Whoever joined may have gone away; then the answer is for nobody.
            task.exception()

    def _on_end(self, task: asyncio.Task[Any], *, is_missed: bool = False) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task %s failed: %s", task.get_name(), error, exc_info=error)
            if self._faults is not None:
                self._faults.record_failure(self, task.get_name(), is_missed=is_missed)

    def _on_kept_end(self, task: asyncio.Task[Any]) -> None:
        self._on_end(task, is_missed=True)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        self._is_closed = True
        # A task that ends may not start another any more, so one round is enough. A task that
        # closes its own scope must not wait for itself.
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._faults is not None:
            self._faults.forget_scope(self)


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
