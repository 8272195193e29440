"""Limits of the duration of requests."""

import asyncio
from types import TracebackType

from broker_ctl.api.http.responses import ApiError


class Deadlines:
    """Deadlines of one server's requests.

    Most requests never wait, and a timer for each would cost more than many responses. Requests of
    one limit expire in the order of their start, so one timer serves them all: it waits for the
    oldest in progress, and is set again when it fires.
    """

    def __init__(self) -> None:
        self._queues: dict[float, _Queue] = {}

    def within(self, limit_s: float) -> "Deadline":
        """A block that is cancelled after ``limit_s`` seconds.

        Raises:
            ApiError: 503, the block did not end in time.
        """
        queue = self._queues.get(limit_s)
        if queue is None:
            queue = self._queues[limit_s] = _Queue(limit_s, asyncio.get_running_loop())
        return Deadline(queue)

    def close(self) -> None:
        """Stop ending requests."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()


class Deadline:
    """See `Deadlines.within`.

    As with `asyncio.timeout`, only a cancellation of its own becomes another error.
    """

    __slots__ = ("_cancelling", "_is_expired", "_queue", "_task", "due_s")

    def __init__(self, queue: "_Queue") -> None:
        self._queue = queue
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_expired = False
        self.due_s = 0.0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a block with a deadline must run in a task")
        self._task, self._cancelling = task, task.cancelling()
        self._queue.add(self)

    def expire(self) -> None:
        """Cancel the block."""
        if self._task is not None:
            self._is_expired = True
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._queue.discard(self)
        if task is None or not self._is_expired:
            return
        # A cancellation by other code is kept.
        is_own = task.uncancel() <= self._cancelling
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            limit_s = self._queue.limit_s
            raise ApiError(503, f"not done within {limit_s:g} s", kind="Timeout") from None


class _Queue:
    """Blocks in progress under one limit, oldest first."""

    def __init__(self, limit_s: float, loop: asyncio.AbstractEventLoop) -> None:
        self.limit_s = limit_s
        self._loop = loop
        self._in_progress: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Deadline) -> None:
        one.due_s = self._loop.time() + self.limit_s
        self._in_progress[one] = None
        if self._timer is None:
            self._timer = self._loop.call_at(one.due_s, self._sweep)

    def discard(self, one: Deadline) -> None:
        self._in_progress.pop(one, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for one in tuple(self._in_progress):
            if one.due_s > now_s:
                self._timer = self._loop.call_at(one.due_s, self._sweep)
                return
            self.discard(one)
            one.expire()
