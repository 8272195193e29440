"""What is to be looked at again after a while, as an event in the one queue."""

import asyncio
from collections.abc import Awaitable, Callable

from broker_ctl.controller.procedures.procedure import ControllerContext


class Alarm:
    """One thing that is done later; however often it is set, once at a time."""

    def __init__(
        self, controller: ControllerContext, name: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        self._controller = controller
        self._name = name
        self._work = work
        self._is_set = False

    def set(self, after_s: float) -> None:
        """Have it done after so many seconds, unless it is due already."""
        if not self._is_set:
            self._is_set = True
            self._controller.tasks.start(self._fire(after_s), self._name)

    async def _fire(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._is_set = False
        self._controller.events.enqueue_once(self._name, self._work)
