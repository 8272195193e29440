"""The role of a server, as it reports it."""

import asyncio
from enum import StrEnum
from typing import Final

from broker_ctl.embedded.ports import LOOPBACK

_DEADLINE_S: Final = 1.0
_MODE: Final = b"Mode: "


class Role(StrEnum):
    """The mode of a serving server in the answer to ``srvr``.

    READ_ONLY: it has no leader, and serves clients that only want to read; no daemon is one.
    """

    LEADER = "leader"
    FOLLOWER = "follower"
    STANDALONE = "standalone"
    OBSERVER = "observer"
    READ_ONLY = "read-only"


async def ask_role(client_port: int) -> Role | None:
    """The role of the server on ``client_port``; None if it does not serve or answer."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, client_port)
            try:
                writer.write(b"srvr")
                async for line in reader:
                    if line.startswith(_MODE):
                        return Role(line.removeprefix(_MODE).decode().strip())
            finally:
                writer.close()
    except (OSError, TimeoutError):
        pass
    return None
