"""``/control/v1/stacks``: where the tasks and threads of this process stand."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses

# A page for people, and a bounded pause of the event loop.
_MOST_TASKS: Final = 1_000
_MOST_FRAMES: Final = 12


class StackRoutes:
    """Serves the stacks; lines of code only, no values of variables."""

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/control/v1/stacks", self.stacks)]

    async def stacks(self, request: web.Request) -> web.Response:
        """Where each task and each thread stands, as text, for a report of a fault."""
        del request
        return responses.text("\n".join([*_tasks(), *_threads()]) + "\n")


def _tasks() -> Iterator[str]:
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    yield f"{len(tasks)} tasks"
    for task in tasks[:_MOST_TASKS]:
        yield f"task {task.get_name()}"
        for frame in task.get_stack(limit=_MOST_FRAMES):
            yield _line(frame, frame.f_lineno)
    if len(tasks) > _MOST_TASKS:
        yield f"{len(tasks) - _MOST_TASKS} more tasks are left out"


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001  the only way to see other threads
    yield f"{len(frames)} threads"
    for ident, top in frames.items():
        yield f"thread {names.get(ident, ident)}"
        for frame, line in list(traceback.walk_stack(top))[:_MOST_FRAMES]:
            yield _line(frame, line)


def _line(frame: FrameType, line: int) -> str:
    return f"    {frame.f_code.co_filename}:{line} {frame.f_code.co_qualname}"
