"""Stub of the daemon, from which the broker process under test pulls its authority."""

import asyncio
import hmac
from collections import deque
from dataclasses import dataclass
from typing import Final

from broker_ctl import codec
from broker_ctl.clock import Clock
from broker_ctl.dataplane.stream_listener import StreamListener
from broker_ctl.dataplane.webhook import wire

SESSION_EPOCH: Final = 7
_REQUEST_TIMEOUT_S: Final = 2.0
_MAX_HEAD_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class Pull:
    """One answered request for authority, on the clock of the stub."""

    asked_s: float
    answered_s: float
    remaining_ms: int


class AuthorityStub:
    """Serves one path over plain asyncio streams; an HTTP server library belongs to another layer.

    Attributes:
        remaining_ms: answer to the next request; None: close the connection instead.
        delay_s: delay of each answer, which exposes a deadline that is counted from its arrival.
        strangers: number of requests without the secret.
        pulls: the latest answered requests.
    """

    def __init__(self, host: str, port: int, secret: str, clock: Clock) -> None:
        self._host = host
        self._port = port
        self._expected = f"Bearer {secret}".encode()
        self._clock = clock
        self._listener = StreamListener(self._serve, "authority stand-in", _MAX_HEAD_BYTES)
        self.remaining_ms: int | None = None
        self.delay_s = 0.0
        self.strangers = 0
        self.pulls: deque[Pull] = deque(maxlen=64)

    @property
    def url(self) -> str:
        """The URL that the broker process must be configured with."""
        return f"http://{self._host}:{self._port}{wire.AUTHORITY}"

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not ours.
        """
        await self._listener.open(self._host, self._port)

    async def close(self) -> None:
        """Close all connections."""
        await self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close; a malformed or slow request is closed without an answer."""
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S + self.delay_s):
                head = await reader.readuntil(b"\r\n\r\n")
                asked_s = self._clock.now_s()
                await asyncio.sleep(self.delay_s)
                await self._answer(head, asked_s, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass

    async def _answer(self, head: bytes, asked_s: float, writer: asyncio.StreamWriter) -> None:
        # Read after the delay: the check may have changed it meanwhile.
        remaining_ms = self.remaining_ms
        status, body = b"200 OK", b"{}"
        if not _is_authority_request(head):
            status = b"404 Not Found"
        elif not hmac.compare_digest(_authorization(head), self._expected):
            self.strangers += 1
            status = b"401 Unauthorized"
        elif remaining_ms is None:
            return
        else:
            body = codec.encode(wire.authority_json(SESSION_EPOCH, remaining_ms))
            self.pulls.append(Pull(asked_s, self._clock.now_s(), remaining_ms))
        writer.write(
            b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n%s" % (status, len(body), body)
        )
        await writer.drain()


def _is_authority_request(head: bytes) -> bool:
    return head.startswith(b"GET %s HTTP/1." % wire.AUTHORITY.encode())


def _authorization(head: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            return value.strip()
    return b""
