"""The class of a request: which requests go first when many wait.

The class belongs to the task that asks, not to the call: whatever a task asks for, through caches
and helpers too, and whatever the tasks that it starts ask for, is of its class.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Final


class RequestClass(IntEnum):
    """Classes, the most urgent first."""

    # Locks, elections, heartbeats: authority ends if they are late.
    CONTROL = 0
    # Lookups, administration, the command line: a client waits.
    INTERACTIVE = 1
    # Loads, reclaims, re-reads after events: many at once, and no client waits for each of them.
    BULK = 2


REQUEST_CLASS: Final[ContextVar[RequestClass]] = ContextVar(
    "class of requests", default=RequestClass.INTERACTIVE
)


@contextmanager
def requests_as(request_class: RequestClass) -> Iterator[None]:
    """Requests that are made inside the block, and by tasks that it starts, are of this class."""
    token = REQUEST_CLASS.set(request_class)
    try:
        yield
    finally:
        REQUEST_CLASS.reset(token)
