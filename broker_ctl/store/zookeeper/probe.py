"""A session made for a question: what a server grants at least, and where its history stands.

To open one is a transaction: whoever gets it knows a zxid that was committed just now, whatever
servers lag or were deposed.
"""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl import errors
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection

_ASKED_MS: Final = 1
_NO_PASSWORD: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found.

    Attributes:
        least_timeout_s: minSessionTimeout of the server, twice its tickTime unless it is set.
        zxid: a transaction that is committed; 0 where the server does not tell.
    """

    least_timeout_s: float
    zxid: int


async def probe(
    host: str, port: int, *, max_frame_bytes: int, tls: ssl.SSLContext | None = None
) -> Probe:
    """Ask one server; the caller gives the deadline.

    Raises:
        ConnectionLoss: it is not there, or opens no session at the moment.
    """
    seen = [0]
    connection, handshake = await Connection.open(
        host,
        port,
        wire.connect(_ASKED_MS, 0, _NO_PASSWORD, 0),
        on_event=lambda _: None,
        on_zxid=seen.append,
        on_room=lambda: None,
        max_frame_bytes=max_frame_bytes,
        tls=tls,
    )
    try:
        if not handshake.session_id:
            raise errors.ConnectionLoss(f"{host}:{port} refused to open a session")
        # It tells how far it is with any answer, a refusal among them.
        await _asked(connection, wire.exists("/"))
        await _asked(connection, wire.close_session())
    finally:
        connection.abort("asked")
    return Probe(handshake.timeout_ms / 1000, max(seen))


async def _asked(connection: Connection, call: wire.Call[Any]) -> None:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.send(call, answer)
    with contextlib.suppress(errors.StoreError):
        await answer
