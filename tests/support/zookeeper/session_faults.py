"""Faults of sessions that tests cause without their owners."""

import asyncio
import struct

from tests.support.time.waiting import eventually

_CONNECT = struct.Struct("!iqiqi16s?")
_CONNECTED = struct.Struct("!iiqi")
_REQUEST = struct.Struct("!ii")
_CLOSE_SESSION = -11
_TIMEOUT_MS = 10_000
_READ_ONLY = False


def _frame(record: bytes) -> bytes:
    return struct.pack("!i", len(record)) + record


async def expire_session(address: str, session_id: int, password: bytes) -> None:
    """End a session at once, as its expiry would: a second connection takes it over and closes it.

    ``address`` is ``host:port`` of one server. Both requests leave in one packet: the owner, whose
    connection the server ends for this, is quick to take its session back.
    """
    host, _, port = address.partition(":")

    async def closed_it() -> bool:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            connect = _CONNECT.pack(0, 0, _TIMEOUT_MS, session_id, 16, password, _READ_ONLY)
            writer.write(_frame(connect) + _frame(_REQUEST.pack(1, _CLOSE_SESSION)))
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            _, _, found_id, _ = _CONNECTED.unpack_from(await reader.readexactly(size))
            is_gone = not found_id
            # Until the reply to the close, or the end of a connection that the owner took back:
            # the next attempt shows which of them it was.
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        else:
            return is_gone
        finally:
            writer.close()

    await eventually(closed_it, what="the session is closed")


def password_of(session_id: int) -> bytes:
    """The password that a server gives with a session id (docs: zookeeper-session-rules).

    Java's `Random`, seeded with the id and a constant: the id alone is enough to take the session.
    """
    mask = (1 << 48) - 1
    seed = ((session_id ^ 0xB3415C00) ^ 0x5DEECE66D) & mask
    password = b""
    while len(password) < 16:
        seed = (seed * 0x5DEECE66D + 0xB) & mask
        password += ((seed >> 16) & 0xFFFFFFFF).to_bytes(4, "little")
    return password
