"""Named tasks with an owner.

Tasks that end together are started in an `asyncio.TaskGroup`. A task that outlives the call that
started it (a reconnect, a revalidation) belongs to a `TaskScope`, which its owner closes. Failures
of such tasks are recorded in the `TaskFaults` of the daemon in whose context they were started.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from traceback import walk_tb
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

log = logging.getLogger(__name__)

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group that is not a group itself, for the log."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


_END_OF_GROUP: Final = asyncio.TaskGroup.__aexit__.__code__


async def run_all(works: Iterable[tuple[str, Coroutine[Any, Any, object]]]) -> None:
    """Run named works side by side, as an `asyncio.TaskGroup`, until all have ended.

    An error that ends one of Python 3.11 is in a variable of the group's own function, and is known
    to the task that has the group (<https://github.com/python/cpython/issues/124958>, mended in
    later releases). It stays until a search for garbage, and with it all that the functions know
    which it has passed. One that ends this function is freed at once.
    """
    group = asyncio.TaskGroup()
    try:
        async with group:
            for name, work in works:
                group.create_task(work, name=name)
    except BaseException as error:
        for frame, _ in walk_tb(error.__traceback__):
            # No others: an error may be shared with tasks that go on.
            if frame.f_code is _END_OF_GROUP:
                frame.clear()
        raise
    finally:
        del group


class TaskFaults:
    """Failures of background tasks of one daemon.

    Attributes:
        failures: number of failed tasks, without joined ones.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._dead: dict[object, list[str]] = {}

    @property
    def dead(self) -> tuple[str, ...]:
        """Names of failed tasks that the daemon needs, which `TaskScope.keep` started."""
        return tuple(name for names in self._dead.values() for name in names)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Record the failures of every task that is started inside the block."""
        token = _FAULTS.set(self)
        try:
            yield
        finally:
            _FAULTS.reset(token)

    def record_failure(self, scope: object, name: str, *, is_missed: bool) -> None:
        """Count a failed task."""
        self.failures += 1
        if is_missed:
            self._dead.setdefault(scope, []).append(name)

    def forget_scope(self, scope: object) -> None:
        """Drop the failures of a scope that was closed: its tasks are not needed any more."""
        self._dead.pop(scope, None)


_FAULTS: ContextVar[TaskFaults | None] = ContextVar("faults of background tasks", default=None)


class TaskScope:
    """Background tasks that end with their owner.

    Unlike in a TaskGroup, the failure of one task does not cancel its siblings: it is logged with
    the task's name, and recorded in the daemon's `TaskFaults`.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        # A dict keeps the order of starts, in which they are cancelled.
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

        With ``is_joined`` a failure is raised to the caller that awaits the task, and not recorded.

        Raises:
            RuntimeError: the scope is closed; the work is not started.
        """
        return self._start(work, name, self._on_joined_end if is_joined else self._on_end)

    def keep(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """As `start`, for work that the daemon needs while the scope is open.

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
            # The awaiting caller may have been cancelled; then nobody needs the result.
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
        # An ending task cannot start another one, so one round is enough. A task that closes its
        # own scope must not wait for itself.
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._faults is not None:
            self._faults.forget_scope(self)


class SingleFlight(Generic[_K, _T]):
    """Executions in progress, by key: concurrent calls with the same key share one.

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


async def wait_until(
    condition: Callable[[], Awaitable[bool]],
    limit_s: float,
    poll_s: float = 0.1,
) -> bool:
    """Poll until the condition holds; False if it does not within the limit."""
    try:
        async with asyncio.timeout(limit_s):
            while True:
                if await condition():
                    return True
                await asyncio.sleep(poll_s)
    except TimeoutError:
        return False
