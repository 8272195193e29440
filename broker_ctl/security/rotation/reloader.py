"""Checks files of secrets and certificates, and has those that have changed loaded."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from broker_ctl.security.rotation.reloadable import Reloadable
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

T = TypeVar("T")


class Reloader:
    """One task for all files of a daemon; until `start` and after `close` nothing is checked."""

    def __init__(self) -> None:
        self._reloadables: list[Reloadable[Any]] = []
        self._is_due: Final = asyncio.Event()
        self._tasks: Final = TaskScope("secrets")

    def __iter__(self) -> Iterator[Reloadable[Any]]:
        return iter(self._reloadables)

    def add(self, reloadable: Reloadable[T]) -> Reloadable[T]:
        """Check it too, from the start; it is returned."""
        if reloadable.is_watchable and reloadable.paths:
            self._reloadables.append(reloadable)
        return reloadable

    def start(self) -> None:
        """Check periodically; without files there is no task."""
        if self._reloadables:
            self._tasks.keep(self._run(), "reload")

    def check_soon(self) -> None:
        """Do not wait for the period."""
        log.info("checking the files of secrets and certificates")
        self._is_due.set()

    async def check(self) -> None:
        """Load what has changed."""
        for reloadable in self._reloadables:
            # Files may be on a network, and keys take time to parse.
            attempt = await asyncio.to_thread(reloadable.read)
            if attempt is not None:
                reloadable.settle(attempt)

    async def close(self) -> None:
        """Check no more."""
        await self._tasks.close()

    async def _run(self) -> None:
        period_s = min(reloadable.period_s for reloadable in self._reloadables)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(period_s):
                    await self._is_due.wait()
            # Before the check: a signal during the check asks for another one.
            self._is_due.clear()
            await self.check()
