"""A listener of an attacker, at an address of loopback that no broker has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Final

from broker_ctl.security.signed_requests import HEADER

HOST: Final = "127.0.0.2"
_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    b"Connection: close\r\n\r\n{}"
)


@dataclass
class Listener:
    """What arrived: the first line of each request, its body, and what proves its sender."""

    port: int = 0
    scheme: str = "http"
    requests: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def broker_id(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.broker_id}"

    async def on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Note one request, and answer it with an empty object."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
            self.requests.append(head[0])
            self.secrets += [line for line in head if line.lower().startswith("authorization:")]
            fields = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
            self.signatures += [fields[HEADER]] if HEADER in fields else []
            self.bodies.append(await reader.readexactly(int(fields.get("Content-Length", "0"))))
            writer.write(_ANSWER)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(ssl: SSLContext | None = None) -> AsyncIterator[Listener]:
    """Listen for the length of the block."""
    found = Listener(scheme="http" if ssl is None else "https")
    server = await asyncio.start_server(found.on_connection, HOST, 0, ssl=ssl)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
