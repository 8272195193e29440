"""Probes a server with a short session: what it grants, and how far its history goes.

Opening a session is a transaction: its reply has a zxid that was committed just now, even if the
server lags or its leader was deposed.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_ctl import errors
from broker_ctl.addresses import Server
from broker_ctl.store.interface import (
    Change,
    Create,
    CreateMode,
    Delete,
    Notification,
    SetData,
    Versioned,
)
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access.identity import ProvenIdentity
from broker_ctl.store.zookeeper.connection import Connection
from broker_ctl.store.zookeeper.pending import Xids

T = TypeVar("T")

log = logging.getLogger(__name__)

_NEEDED: Final = "ZooKeeper 3.6 or newer is needed on all servers"
_TOO_OLD: Final = f"this ZooKeeper knows no persistent recursive watch; {_NEEDED}"
_NAME: Final = "broker-ctl-probe-"
_LIFE: Final = [Change.CREATED, Change.MODIFIED, Change.DELETED]
_ASKED_MS: Final = 1
LIMIT_S: Final = 2.0
_NO_PASSWORD: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Probe:
    """Result of a probe.

    Attributes:
        least_timeout_s: minSessionTimeout of the server, twice its tickTime unless it is set.
        zxid: a transaction that is committed; 0 if the server does not report it.
        lacks: what the server has to do and does not, for operators; empty: nothing is known.
    """

    least_timeout_s: float
    zxid: int
    lacks: str


@dataclass(frozen=True, slots=True)
class WatchTrial:
    """How to try recursive watches: below one, an ephemeral node is created, changed and deleted.

    That a server takes the request says little. ClickHouse Keeper does, and reports the path of the
    watch in place of the node's, so that every copy of nodes is silently wrong.

    Attributes:
        root: what is watched; a node above it, while it does not exist.
        acl: of the node, packed.
    """

    root: str
    identity: ProvenIdentity
    acl: bytes


async def probe(
    server: Server,
    *,
    max_frame_bytes: int,
    tls: ssl.SSLContext | None = None,
    trial: WatchTrial | None = None,
) -> Probe:
    """Ask one server, which writes nothing without a ``trial``; the caller gives the deadline.

    Raises:
        ConnectionLoss: the server is not reachable, or opens no session now.
    """
    seen = [0]
    events: list[Notification] = []
    connection, handshake = await Connection.open(
        server,
        wire.connect(_ASKED_MS, 0, _NO_PASSWORD, 0),
        on_event=events.append,
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
        root = "/" if trial is None else await _begin(connection, trial)
        # A server that does not know this request closes the connection.
        answer = await _ask(connection, wire.add_watch(root))
        lacks = _TOO_OLD if isinstance(answer, errors.Unsupported) else ""
        if not lacks:
            if trial is not None:
                lacks = await _try(connection, root, trial.acl, events)
            await _ask(connection, wire.close_session())
    finally:
        connection.abort("asked")
    return Probe(handshake.timeout_ms / 1000, max(seen), lacks)


async def _begin(connection: Connection, trial: WatchTrial) -> str:
    """Prove the identity, and find what is to be watched."""
    await trial.identity.prove(connection)
    root = trial.root or "/"
    while root != "/" and isinstance(await _ask(connection, wire.exists(root)), errors.NoNode):
        root = root.rpartition("/")[0] or "/"
    return root


async def _try(
    connection: Connection, root: str, acl: bytes, events: Sequence[Notification]
) -> str:
    """What the watch of ``root`` does that it should not; empty: nothing."""
    name = f"{root.rstrip('/')}/{_NAME}"
    create = Create(name, b"", CreateMode.EPHEMERAL_SEQUENTIAL)
    try:
        (node,) = await _call(connection, wire.write(create, acl))
        assert isinstance(node, Versioned)
        await _call(connection, wire.write(SetData(node.path, b"1"), acl))
        await _call(connection, wire.write(Delete(node.path), acl))
    except errors.NoAuth as error:
        log.info("cannot try the watches of a server in %s: %s", root, error)
        return ""
    # An event comes before the reply of the request that caused it.
    if [event.change for event in events if event.path == node.path] == _LIFE:
        return ""
    said = " and ".join(sorted({event.path for event in events})) or "nothing"
    return (
        f"below a recursive watch of {root}, {node.path} was created, changed and deleted, and the "
        f"server reported {said}, not each change of that node (ClickHouse Keeper does so): copies "
        f"of nodes would be silently wrong; {_NEEDED}"
    )


async def least_timeouts_s(
    servers: Sequence[Server],
    *,
    max_frame_bytes: int,
    tls: ssl.SSLContext | None = None,
    trial: WatchTrial | None = None,
) -> list[float]:
    """What each server that answers in time grants a session at least.

    Raises:
        Unsupported: one is older than what this client needs, or its watches fail the ``trial``.
    """
    found: list[float] = []
    unfit: list[str] = []

    async def ask(server: Server) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                one = await probe(server, max_frame_bytes=max_frame_bytes, tls=tls, trial=trial)
        except (errors.StoreError, TimeoutError) as error:
            log.info("cannot read minSessionTimeout of %s: %s", server, error)
        else:
            found.append(one.least_timeout_s)
            if one.lacks:
                unfit.append(f"{server}: {one.lacks}")

    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(ask(server), name=f"shortest session of {server}")
    if unfit:
        raise errors.Unsupported("; ".join(sorted(unfit)))
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
    try:
        await _call(connection, call)
    except errors.StoreError as error:
        return error
    return None


async def _call(connection: Connection, call: wire.Call[T]) -> T:
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    connection.send(call, answer)
    return await answer
