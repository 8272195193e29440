"""Requests whose steps begin in the callback that reads them, as asyncio's eager tasks do.

Most lookups are answered from memory. For each of them aiohttp would wake the task of the
connection, which would start another one for the request: together they take as long as the lookup.
So the steps of such a request begin without a task. Most of them end there. A request that has to
wait calls `in_task` first, and goes on from that point in the task that aiohttp has for it: no step
is left out, and none is done twice.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

from aiohttp import web

from broker_ctl.api.http.routing import RoutedRequest

H = TypeVar("H", bound=Callable[..., Any])

# The response to a request, if memory has it.
Recall = Callable[[web.Request], web.Response | None]

_MARK: Final = "recalled_by"


class Steps:
    """The steps of one request, begun without a task.

    Attributes:
        response: None: they have to wait, and go on where a task awaits this object.
    """

    __slots__ = ("_steps", "response")

    def __init__(self, steps: Coroutine[Any, Any, web.StreamResponse]) -> None:
        """Begin.

        Raises:
            RuntimeError: a step has waited without a task.
        """
        self._steps = steps
        self.response: web.StreamResponse | None = None
        try:
            awaited = steps.send(None)
        except StopIteration as ended:
            self.response = ended.value
            return
        if awaited is not None:
            steps.close()
            raise RuntimeError("a step of a request has waited without a task")

    def __await__(self) -> Generator[Any, Any, web.StreamResponse]:
        """Go on in the task that awaits this."""
        return self._steps.__await__()

    def close(self) -> None:
        """Give up the steps that wait for a task."""
        self._steps.close()


@coroutine
def _hand_over() -> Generator[None, None, None]:
    yield


async def in_task(request: web.Request) -> None:
    """Go on in a task. Only a task may be cancelled, have a deadline, or wait."""
    assert isinstance(request, RoutedRequest)
    if request.is_eager:
        request.is_eager = False
        await _hand_over()


def recalled_by(name: str) -> Callable[[H], H]:
    """Mark a handler whose class has a method ``name`` that may answer from memory, a `Recall`.

    It is called first; the handler only where it returns None.
    """

    def mark(handler: H) -> H:
        setattr(handler, _MARK, name)
        return handler

    return mark


def recall_of(handler: Callable[..., Any]) -> Recall | None:
    """What may answer in place of a handler; None: nothing."""
    name: str | None = getattr(handler, _MARK, None)
    if name is None:
        return None
    recall: Recall = getattr(handler.__self__, name)  # type: ignore[attr-defined]
    return recall
