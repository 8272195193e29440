"""What a ZooKeeper server says without a session (``srvr``), and with a short one: the probe."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from broker_ctl import errors
from broker_ctl.addresses import Server, look_up_all
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
from broker_ctl.store.zookeeper.access import ProvenIdentity
from broker_ctl.store.zookeeper.connection import Connection, Xids

log = logging.getLogger(__name__)

# The commands of four letters that a ZooKeeper server answers without a session.


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


# Status of one ZooKeeper server from ``srvr``, a command that every release allows.
#
# A server that is up and has no quorum accepts connections but opens no session. A client that
# only connects cannot distinguish it from a slow server; ``srvr`` can.


LIMIT_S: Final = 3.0
_NO_QUORUM: Final = "not currently serving requests"
_TEXT: Final = 200


class ServerState(StrEnum):
    """Role of the server in the ensemble."""

    LEADER = "leader"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    STANDALONE = "standalone"
    READ_ONLY = "read-only"
    NOT_SERVING = "not serving"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


# A server that knows its leader is part of a quorum.
LED: Final = frozenset(
    {ServerState.LEADER, ServerState.FOLLOWER, ServerState.OBSERVER, ServerState.STANDALONE}
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Status that one server reports.

    Attributes:
        zxid: of its newest transaction, as the server prints it.
        note: why the rest is not known.
    """

    server: str
    state: ServerState
    version: str = ""
    zxid: str = ""
    connections: str = ""
    note: str = ""


async def ask_all(
    hosts: Sequence[tuple[str, int]],
    *,
    limit_s: float = LIMIT_S,
    tls: ssl.SSLContext | None = None,
) -> list[Standing]:
    """Ask all servers concurrently, each at each address of its name, in the order of ``hosts``."""
    servers = await look_up_all(hosts, limit_s)
    async with asyncio.TaskGroup() as group:
        asking = [
            group.create_task(ask(server, limit_s=limit_s, tls=tls), name=f"srvr {server}")
            for server in servers
        ]
    return [one.result() for one in asking]


class Outlook:
    """Status of the servers while no session can be opened.

    ``report`` is called with the number of servers that are up without a quorum, and with 0 once
    there is a session.
    """

    def __init__(
        self,
        hosts: Sequence[tuple[str, int]],
        tls: ssl.SSLContext | None,
        report: Callable[[int], None] | None,
    ) -> None:
        self._hosts = hosts
        self._tls = tls
        self._report = report
        self._outages = 0

    async def look(self) -> None:
        """Ask all servers, and log the status of each."""
        outage = self._outages
        standings = await ask_all(self._hosts, tls=self._tls)
        each = "; ".join(f"{one.server} {one.state} {one.note}".rstrip() for one in standings)
        log.warning("ZooKeeper: %s (%s)", verdict(standings)[1], each)
        # The outage may have ended while a silent server was waited for.
        if self._report is not None and outage == self._outages:
            self._report(sum(one.state is ServerState.NOT_SERVING for one in standings))

    def on_session(self) -> None:
        """A server has granted a session, so it has a quorum."""
        self._outages += 1
        if self._report is not None:
            self._report(0)


async def ask(
    server: Server, *, limit_s: float = LIMIT_S, tls: ssl.SSLContext | None = None
) -> Standing:
    """Ask one server; a failure is part of the result."""
    try:
        answer = await send_word(server, "srvr", limit_s=limit_s, tls=tls)
    except TimeoutError:
        return Standing(
            str(server), ServerState.UNREACHABLE, note=f"no answer within {limit_s:g} s"
        )
    except OSError as error:
        return Standing(str(server), ServerState.UNREACHABLE, note=str(error))
    return read(str(server), answer)


def read(server: str, reply_text: str) -> Standing:
    """Parse the answer to ``srvr``."""
    if _NO_QUORUM in reply_text:
        return Standing(server, ServerState.NOT_SERVING, note="it is up and has no quorum")
    facts = {
        key.strip(): value.strip() for key, _, value in map(_split_line, reply_text.splitlines())
    }
    mode = facts.get("Mode", "")
    known = next((state for state in LED | {ServerState.READ_ONLY} if state == mode), None)
    if known is None:
        note = " ".join(reply_text.split())[:_TEXT] or "an empty answer"
        return Standing(server, ServerState.UNKNOWN, note=note)
    return Standing(
        server,
        known,
        version=facts.get("Zookeeper version", "").partition("-")[0],
        zxid=facts.get("Zxid", ""),
        connections=facts.get("Connections", ""),
    )


def _split_line(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def verdict(standings: Sequence[Standing]) -> tuple[bool, str]:
    """Whether the ensemble serves, and a sentence for the operator."""
    led = [one for one in standings if one.state in LED]
    leader = next(
        (one for one in led if one.state in {ServerState.LEADER, ServerState.STANDALONE}), None
    )
    up = [one for one in standings if one.state is ServerState.NOT_SERVING]
    count = len(standings)
    if leader is not None and len(led) == count:
        return True, f"{leader.server} is the {leader.state}; all {count} serve"
    if led:
        who = "a leader that is not asked here" if leader is None else leader.server
        return True, f"led by {who}; {len(led)} of {count} serve"
    if up:
        return False, (
            f"no leader: {len(up)} of {count} are up, and have no quorum; start the others, and see"
            " whether they reach each other at the ports of their election"
        )
    return False, f"no leader: none of {count} says that it serves"


# Probes a server with a short session: what it grants, and how far its history goes.
#
# Opening a session is a transaction: its reply has a zxid that was committed just now, even if the
# server lags or its leader was deposed.


T = TypeVar("T")


_NEEDED: Final = "ZooKeeper 3.6 or newer is needed on all servers"
_TOO_OLD: Final = f"this ZooKeeper knows no persistent recursive watch; {_NEEDED}"
_NAME: Final = "broker-ctl-probe-"
_LIFE: Final = [Change.CREATED, Change.MODIFIED, Change.DELETED]
_ASKED_MS: Final = 1
PROBE_LIMIT_S: Final = 2.0
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
        (node,) = await _call(connection, wire.wire_write(create, acl))
        assert isinstance(node, Versioned)
        await _call(connection, wire.wire_write(SetData(node.path, b"1"), acl))
        await _call(connection, wire.wire_write(Delete(node.path), acl))
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
            async with asyncio.timeout(PROBE_LIMIT_S):
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
            async with asyncio.timeout(PROBE_LIMIT_S):
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
