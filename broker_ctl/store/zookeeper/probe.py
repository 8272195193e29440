"""Probes a server with a short session: what it grants, and how far its history goes.

Opening a session is a transaction: its reply has a zxid that was committed just now, even if the
server lags or its leader was deposed.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl import errors
from broker_ctl.addresses import Server
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection
from broker_ctl.store.zookeeper.pending import Xids

log = logging.getLogger(__name__)

_NEEDED: Final = "ZooKeeper 3.6"
_ASKED_MS: Final = 1
LIMIT_S: Final = 2.0
_NO_PASSWORD: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Probe:
    """Result of a probe.

    Attributes:
        least_timeout_s: minSessionTimeout of the server, twice its tickTime unless it is set.
        zxid: a transaction that is committed; 0 if the server does not report it.
        is_too_old: whether the server lacks persistent recursive watches.
    """

    least_timeout_s: float
    zxid: int
    is_too_old: bool


async def probe(
    server: Server, *, max_frame_bytes: int, tls: ssl.SSLContext | None = None
) -> Probe:
    """Ask one server; the caller gives the deadline.

    Raises:
        ConnectionLoss: the server is not reachable, or opens no session now.
    """
    seen = [0]
    connection, handshake = await Connection.open(
        server,
        wire.connect(_ASKED_MS, 0, _NO_PASSWORD, 0),
        on_event=lambda _: None,
        on_zxid=seen.append,
        on_room=lambda: None,
        max_frame_bytes=max_frame_bytes,
        xids=Xids(),
        tls=tls,
    )
    try:
        if not handshake.session_id:
            raise errors.ConnectionLoss(f"{server} refused to open a session")
        # Each answer, also a refusal, has the zxid of the server.
        await _ask(connection, wire.exists("/"))
        # This request comes last: a server that does not know it closes the connection.
        answer = await _ask(connection, wire.add_watch("/"))
        is_too_old = isinstance(answer, errors.Unsupported)
        if not is_too_old:
            await _ask(connection, wire.close_session())
    finally:
        connection.abort("asked")
    return Probe(handshake.timeout_ms / 1000, max(seen), is_too_old)


async def least_timeouts_s(
    servers: Sequence[Server],
    *,
    max_frame_bytes: int,
    tls: ssl.SSLContext | None = None,
) -> list[float]:
    """What each server that answers in time grants a session at least.

    Raises:
        Unsupported: one is older than what this client needs.
    """
    found: list[float] = []
    too_old: list[str] = []

    async def ask(server: Server) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                one = await probe(server, max_frame_bytes=max_frame_bytes, tls=tls)
        except (errors.StoreError, TimeoutError) as error:
            log.info("cannot read minSessionTimeout of %s: %s", server, error)
        else:
            found.append(one.least_timeout_s)
            if one.is_too_old:
                too_old.append(str(server))

    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(ask(server), name=f"shortest session of {server}")
    if too_old:
        raise errors.Unsupported(
            f"{', '.join(sorted(too_old))}: this ZooKeeper knows no persistent recursive watch; "
            f"{_NEEDED} or newer is needed on all servers"
        )
    return found


class HistoryCheck:
    """Checks whether the servers lost transactions that this client has observed.

    If they did, no server will accept it again. A server closes the connection of a client with a
    newer zxid without an error. A server that lags or has no quorum does the same, but only for a
    while.
    """

    def __init__(
        self, last_zxid: Callable[[], int], max_frame_bytes: int, tls: ssl.SSLContext | None
    ) -> None:
        self._last_zxid = last_zxid
        self._max_frame_bytes = max_frame_bytes
        self._tls = tls

    async def look(self, server: Server) -> errors.HistoryBehind | None:
        """Probe one server; None if its history is complete, or if it does not report it."""
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await probe(server, max_frame_bytes=self._max_frame_bytes, tls=self._tls)
        except (errors.StoreError, TimeoutError) as error:
            log.debug("cannot read the last zxid of %s: %s", server, error)
            return None
        if not 0 < found.zxid < self._last_zxid():
            return None
        return errors.HistoryBehind(
            f"the history of ZooKeeper ends at 0x{found.zxid:x}, and 0x{self._last_zxid():x} was "
            "seen: the servers were restored from a copy, or are others; see "
            "docs/how-to/restored-zookeeper.md"
        )


async def _ask(connection: Connection, call: wire.Call[Any]) -> errors.StoreError | None:
    """The error code of the server's answer."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.send(call, answer)
    try:
        await answer
    except errors.StoreError as error:
        return error
    return None
