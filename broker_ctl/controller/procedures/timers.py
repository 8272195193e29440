"""Timers that queue an event."""

import asyncio
from collections.abc import Awaitable, Callable

from broker_ctl.controller.procedures.procedure import ControllerContext


class Alarm:
    """A timer for one piece of work; setting it again has no effect until it fires."""

    def __init__(
        self, controller: ControllerContext, name: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        self._controller = controller
        self._name = name
        self._work = work
        self._is_set = False

    def set(self, after_s: float) -> None:
        """Run the work after ``after_s`` seconds, unless it is set already."""
        if not self._is_set:
            self._is_set = True
            self._controller.tasks.start(self._fire(after_s), self._name)

    async def _fire(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._is_set = False
        self._controller.events.enqueue_once(self._name, self._work)
