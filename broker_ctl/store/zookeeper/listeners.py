"""Telling listeners what happened."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


def notify_listeners(listeners: Iterable[Callable[[T], None]], news: T) -> None:
    """Call every listener, in order.

    They are called from the task that reconnects and from the socket's reader. The fault of one
    must end neither of these: nothing would ever reconnect, and replies would be lost.
    """
    for listener in tuple(listeners):
        try:
            listener(news)
        except Exception:
            log.exception("a listener failed on %s", news)
