"""Answers under the lease: waiting requests fail at once when this broker may no longer act.

Without a connection a read would wait for its return, or for a whole operation timeout; clients
that are asked to retry sooner may find another broker.
"""

import asyncio
from types import TracebackType
from typing import Self

from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.machines.session import Action, State
from broker_ctl.errors import AuthorityLost


class LeaseGuard:
    """The scopes in progress under one session watcher."""

    def __init__(self, watcher: SessionWatcher) -> None:
        self._watcher = watcher
        # A dict keeps their order, which a set does not: a run must replay from its seed.
        self._under_way: dict[Scope, None] = {}
        watcher.listen(self._heard)

    def is_allowed(self) -> bool:
        """Whether this broker may act at this moment."""
        try:
            self._watcher.check()
        except AuthorityLost:
            return False
        return True

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the store."""
        return self._watcher.state is State.CONNECTED

    @property
    def has_store(self) -> bool:
        """Whether the store is connected and has answered a short time ago."""
        return self._watcher.has_store

    def held(self, *, needs_store: bool = False) -> "Scope":
        """A scope in which this broker may act; its task is interrupted when it no longer may.

        ``needs_store``: also when the connection to the store is lost.

        Raises:
            AuthorityLost: this broker may not act, or the authority (or the connection) ended
                inside the scope.
        """
        return Scope(self._watcher, self._under_way, needs_store=needs_store)

    def _heard(self, action: Action) -> None:
        if action not in {Action.FENCE, Action.CONNECTION_LOST}:
            return
        is_allowed, is_connected = self.is_allowed(), self.is_connected
        ended = tuple(
            scope
            for scope in self._under_way
            if not is_allowed or (scope.needs_store and not is_connected)
        )
        if ended:
            # Not cancelled right here: the caller of the watcher may itself be a task in such a
            # scope, and a task that cancels itself is interrupted at its next await, wherever that
            # is.
            asyncio.get_running_loop().call_soon(_fence, ended)


def _fence(scopes: "tuple[Scope, ...]") -> None:
    for scope in scopes:
        scope.fence()


class Scope:
    """See `LeaseGuard.held`. Each lookup uses one, so it costs neither a timer nor an await.

    It ends as `asyncio.Timeout` does: only its own cancellation becomes another error.
    """

    __slots__ = ("_cancelling", "_is_fenced", "_task", "_under_way", "_watcher", "needs_store")

    def __init__(
        self,
        watcher: SessionWatcher,
        under_way: "dict[Scope, None]",
        *,
        needs_store: bool = False,
    ) -> None:
        self.needs_store = needs_store
        self._watcher = watcher
        self._under_way = under_way
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_fenced = False

    def __enter__(self) -> Self:
        self._watcher.check()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lease scope needs a running task")
        self._task = task
        self._cancelling = task.cancelling()
        self._under_way[self] = None
        return self

    def fence(self) -> None:
        """Interrupt the task that waits in the scope; does nothing once the scope was left."""
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
        # Others may also have cancelled the task: their cancellation continues.
        is_own = task.uncancel() <= self._cancelling
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            self._watcher.check()
            what = "connection to ZooKeeper was lost" if self.needs_store else "session ended"
            raise AuthorityLost(f"the {what} during the request") from error
