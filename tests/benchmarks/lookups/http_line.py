"""A connection that keeps one HTTP request on its way: nothing that parses more than it must."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Final, cast

_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
LOST: Final = "lost"
_KINDS: Final = {b"200": "connect", b"307": "redirect"}


def is_whole(data: bytes) -> bool:
    """Whether an answer is there to its last byte."""
    end = data.find(_END)
    if end < 0:
        return False
    length = _LENGTH.search(data, 0, end + len(_END))
    assert length is not None, data
    return len(data) == end + len(_END) + int(length[1])


class HttpLine(asyncio.Protocol):
    """One request at a time.

    Args:
        requests: by number.
        on_answer: takes the kind of an answer (``connect``, ``redirect``, or its status), and when
            its request was due.
    """

    def __init__(
        self, requests: Sequence[bytes], on_answer: Callable[["HttpLine", str, float], None]
    ) -> None:
        self._requests = requests
        self._on_answer = on_answer
        self._transport: asyncio.Transport | None = None
        self._due_s: float | None = None
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    async def opened(self) -> None:
        """Nothing is agreed upon first."""

    def ask(self, number: int, due_s: float) -> None:
        """Send the request of that number."""
        assert self._transport is not None
        assert self._due_s is None
        self._due_s = due_s
        self._transport.write(self._requests[number])

    def data_received(self, data: bytes) -> None:
        """An answer, or a part of it."""
        data = self._held + data
        if not is_whole(data):
            self._held = data
            return
        self._held = b""
        self._report(_KINDS.get(data[9:12]) or data[9:12].decode(errors="replace"))

    def connection_lost(self, _: Exception | None) -> None:
        """What is on its way is lost."""
        if self._due_s is not None:
            self._report(LOST)

    def close(self) -> None:
        """Done."""
        if self._transport is not None:
            self._transport.close()

    def _report(self, kind: str) -> None:
        assert self._due_s is not None
        due_s, self._due_s = self._due_s, None
        self._on_answer(self, kind, due_s)
