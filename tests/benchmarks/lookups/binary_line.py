"""A connection of the binary protocol with several lookups on their way."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

from tests.benchmarks.lookups import frames
from tests.benchmarks.lookups.http_line import LOST

_RESPONSE: Final = 3
_REQUEST_ID: Final = 4
_ERROR: Final = 6
_KINDS: Final = {0: "redirect", 1: "connect"}


class BinaryLine(asyncio.Protocol):
    """As `HttpLine`; ``requests`` are LOOKUP frames whose request ids are their numbers and 1.

    Args:
        token: that it connects with; empty: none.
    """

    def __init__(
        self,
        token: str,
        requests: Sequence[bytes],
        on_answer: Callable[["BinaryLine", str, float], None],
    ) -> None:
        self._token = token
        self._requests = requests
        self._on_answer = on_answer
        self._transport: asyncio.Transport | None = None
        self._connected = asyncio.get_running_loop().create_future()
        self._dues_s: dict[int, float] = {}
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The server speaks when it is spoken to."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(frames.connect(self._token))

    async def opened(self) -> None:
        """Wait until the server has answered."""
        await self._connected

    def ask(self, number: int, due_s: float) -> None:
        """Send the frame of that number."""
        assert self._transport is not None
        assert number + 1 not in self._dues_s
        self._dues_s[number + 1] = due_s
        self._transport.write(self._requests[number])

    def data_received(self, data: bytes) -> None:
        """Frames, or parts of them."""
        commands, self._held = frames.cut(self._held + data)
        for command in commands:
            match frames.type_of(command):
                case frames.LOOKUP_RESPONSE:
                    self._answered(frames.body_of(command))
                case frames.CONNECTED:
                    self._connected.set_result(None)
                case frames.PING:
                    assert self._transport is not None
                    self._transport.write(frames.pong())
                case other:
                    raise AssertionError(f"command {other}: {frames.body_of(command)}")

    def connection_lost(self, error: Exception | None) -> None:
        """What is on its way is lost."""
        if not self._connected.done():
            reason = "closed before it was connected"
            self._connected.set_exception(error or ConnectionError(reason))
        for request_id in list(self._dues_s):
            self._on_answer(self, LOST, self._dues_s.pop(request_id))

    def close(self) -> None:
        """Done."""
        if self._transport is not None:
            self._transport.close()

    def _answered(self, answer: frames.Fields) -> None:
        request_id, response = answer[_REQUEST_ID], answer.get(_RESPONSE)
        assert isinstance(request_id, int)
        kind = _KINDS.get(response) if isinstance(response, int) else None
        self._on_answer(self, kind or f"error {answer.get(_ERROR)!r}", self._dues_s.pop(request_id))
