"""Answers that are given only while this broker may act: at its end whoever waits is told at once.

Without the session a read waits until it is back, or for a whole operation timeout; clients that
are told to come again sooner may find another broker.
"""

import asyncio
from types import TracebackType
from typing import Self

from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import Action
from broker_ctl.errors import AuthorityLost


class LeaseGuard:
    """What is in progress under one session watcher."""

    def __init__(self, watcher: SessionWatcher) -> None:
        self._watcher = watcher
        # In their order, which a set of them does not have: a seed must replay.
        self._under_way: dict[Scope, None] = {}
        watcher.listen(self._heard)

    def held(self) -> "Scope":
        """Only while this broker may act; ends what waits in the block where it may no longer.

        Raises:
            AuthorityLost: it may not, or not any more.
        """
        return Scope(self._watcher, self._under_way)

    def _heard(self, action: Action) -> None:
        if action is not Action.FENCE:
            return
        try:
            self._watcher.check()
        except AuthorityLost:
            # Not from here: whoever feeds the watcher may be a task in such a block, and a task
            # that cancels itself is met by it at its next wait, wherever that is.
            asyncio.get_running_loop().call_soon(_fence, tuple(self._under_way))


def _fence(scopes: "tuple[Scope, ...]") -> None:
    for scope in scopes:
        scope.fence()


class Scope:
    """See `LeaseGuard.held`. Each lookup passes one: it costs no timer and no wait.

    Ends as `asyncio.Timeout` does: only a cancellation of its own becomes another error.
    """

    __slots__ = ("_cancelling", "_is_fenced", "_task", "_under_way", "_watcher")

    def __init__(self, watcher: SessionWatcher, under_way: "dict[Scope, None]") -> None:
        self._watcher = watcher
        self._under_way = under_way
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_fenced = False

    def __enter__(self) -> Self:
        self._watcher.check()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a block that may be cancelled stands in a task")
        self._task = task
        self._cancelling = task.cancelling()
        self._under_way[self] = None
        return self

    def fence(self) -> None:
        """End the block where its task waits in it; nothing where it has been left."""
        if self._task is not None and not self._is_fenced:
            self._is_fenced = True
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._under_way.pop(self, None)
        if task is None or not self._is_fenced:
            return
        # Others may have cancelled the task besides: theirs goes on.
        is_own = task.uncancel() <= self._cancelling
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            self._watcher.check()
            raise AuthorityLost("the session ended meanwhile") from error
