"""Answers that are given only while this broker may act: at its end whoever waits is told at once.

Without the session a read waits until it is back, or for a whole operation timeout; clients that
are told to come again sooner may find another broker.
"""

import asyncio
from types import TracebackType
from typing import Self

from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.session import Action
from broker_ctl.errors import AuthorityLost


class Authorised:
    """What is in progress under one session watcher."""

    def __init__(self, watcher: SessionWatcher) -> None:
        self._watcher = watcher
        # In their order, which a set of them does not have: a seed must replay.
        self._under_way: dict[asyncio.Timeout, None] = {}
        watcher.listen(self._heard)

    def held(self) -> "_Scope":
        """Only while this broker may act; ends what waits in the block where it may no longer.

        Raises:
            AuthorityLost: it may not, or not any more.
        """
        return _Scope(self._watcher, self._under_way)

    def _heard(self, action: Action) -> None:
        if action is not Action.FENCE:
            return
        try:
            self._watcher.check()
        except AuthorityLost:
            now_s = asyncio.get_running_loop().time()
            for deadline in tuple(self._under_way):
                deadline.reschedule(now_s)


class _Scope:
    """See `Authorised.held`; a lookup passes one, and most wait for nothing in it."""

    __slots__ = ("_deadline", "_under_way", "_watcher")

    def __init__(self, watcher: SessionWatcher, under_way: dict[asyncio.Timeout, None]) -> None:
        self._watcher = watcher
        self._under_way = under_way
        self._deadline = asyncio.timeout(None)

    async def __aenter__(self) -> Self:
        self._watcher.check()
        await self._deadline.__aenter__()
        self._under_way[self._deadline] = None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._under_way.pop(self._deadline, None)
        try:
            await self._deadline.__aexit__(kind, error, trace)
        except TimeoutError:
            self._watcher.check()
            raise AuthorityLost("the session ended meanwhile") from error
