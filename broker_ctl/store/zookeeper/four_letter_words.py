"""The commands of four letters that a ZooKeeper server answers without a session."""

import asyncio
import ssl
from typing import Final

from broker_ctl.addresses import Server

MAX_BYTES: Final = 4096
_REFUSED: Final = "is not in the whitelist"


async def send_word(
    server: Server, word: str, *, limit_s: float, tls: ssl.SSLContext | None = None
) -> str:
    """The answer of one server, at most its first 4 KiB.

    Raises:
        TimeoutError: no answer within the limit.
        OSError: the server is not reachable.
    """
    async with asyncio.timeout(limit_s):
        reader, writer = await asyncio.open_connection(
            server.address,
            server.port,
            ssl=tls,
            server_hostname=server.host if tls is not None else None,
        )
        try:
            writer.write(word.encode())
            answer = await reader.read(MAX_BYTES)
            while len(answer) < MAX_BYTES and (more := await reader.read(MAX_BYTES)):
                answer += more
        finally:
            writer.close()
    return answer[:MAX_BYTES].decode(errors="replace")


def is_refused(answer: str) -> bool:
    """Whether the server does not allow the command (4lw.commands.whitelist)."""
    return _REFUSED in answer
