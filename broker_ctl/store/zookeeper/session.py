"""One ZooKeeper client: a session that survives its connections, and a new one when it expires.

It reacts to a closed socket at once, returns to another server with the same session, keeps the
newest zxid for its whole life (the only guard against older state after a reconnect), and compares
session ids on every reconnect: a server that hands out another id has lost the session.
Docs: pulsar-session-watcher, zookeeper-session-rules.

    state        event                     next         notification
    new          handshake                 connected    CONNECTED
    connected    connection lost           suspended    SUSPENDED
    suspended    handshake, same id        connected    RECONNECTED
    suspended    id 0 or another id        new          EXPIRED
    connected    session expired or moved  new          SUSPENDED, EXPIRED
    any          close, bad credentials,   closed       CLOSED
                 history behind ours
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from broker_ctl import errors
from broker_ctl.addresses import Server
from broker_ctl.core.machines.lease import LoopWatchdog
from broker_ctl.store.interface import NO_SESSION, SavedSession, SessionEvent, SessionListener
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access import ANONYMOUS, ProvenIdentity
from broker_ctl.store.zookeeper.connection import Connection, OnReply, StallFrame, Xids
from broker_ctl.store.zookeeper.dialer import Dialer
from broker_ctl.store.zookeeper.liveness import keep_alive
from broker_ctl.store.zookeeper.request_pipeline import RequestPipeline
from broker_ctl.store.zookeeper.server_status import HistoryCheck, Outlook
from broker_ctl.store.zookeeper.watches import WatchTable, notify_listeners
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLOSE_LIMIT_S: Final = 2.0
_NO_PASSWORD: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How to reach the ensemble.

    Attributes:
        hosts: ``(host, port)`` pairs.
        timeout_s: session timeout asked for; the server clamps it to 2 to 20 ticks.
        max_in_flight: bound on unanswered requests; more wait in line.
        max_frame_bytes: jute.maxbuffer of the servers.
        identity: proven on each connection before anything else.
        resumed: a session of an earlier process to take up again.
        max_retries: attempts after an outage has outlasted the session timeout, when the session
            must be presumed lost; -1: no limit.
        watchdog: how long a thread sends for a busy event loop; None: not at all.
        on_sent: called with the seconds that each request waited in the queue.
        on_reply: called for each reply with the request and its age in seconds.
        on_no_quorum: called with the number of servers up without quorum when no session opens,
            and 0 once there is one.
    """

    hosts: Sequence[tuple[str, int]]
    timeout_s: float = 30.0
    max_in_flight: int = 1000
    max_frame_bytes: int = 0xFFFFF
    identity: ProvenIdentity = ANONYMOUS
    tls: ssl.SSLContext | None = None
    resumed: SavedSession = field(default=NO_SESSION, repr=False)
    max_retries: int = -1
    watchdog: LoopWatchdog | None = None
    on_sent: Callable[[float], None] | None = None
    on_reply: OnReply | None = None
    on_no_quorum: Callable[[int], None] | None = None


async def _guard(work: Awaitable[None], end: Callable[[errors.StoreError], None]) -> None:
    """Run ``work``; a failure ends the session: otherwise it would silently never connect again."""
    try:
        await work
    except Exception as error:
        end(errors.ClientFailed(f"{type(error).__name__}: {error}"))
        raise


class Session:
    """Keeps a session, and a connection for its requests."""

    def __init__(self, options: SessionOptions, rng: random.Random) -> None:
        self._options = options
        self._dialer = Dialer(options.hosts, rng)
        self._outlook = Outlook(options.hosts, options.tls, options.on_no_quorum)
        self._connection: Connection | None = None
        self._session_id = options.resumed.session_id
        self._password = options.resumed.password or _NO_PASSWORD
        # For the life of this client: a session that follows an expired one counts on.
        self._xids = Xids(options.resumed.last_xid)
        self._timeout_s = 0.0  # as negotiated
        # See `Connection.handshake_s`.
        self.handshake_s = 0.0
        self._line = RequestPipeline(options.max_in_flight, options.on_sent)
        self.next_place = self._line.next_place
        # Why the session ended; None while requests can be sent.
        self.ended_by: errors.StoreError | None = None
        self._find_history = HistoryCheck(
            lambda: self.last_zxid, options.max_frame_bytes, options.tls
        ).look
        self._listeners: list[SessionListener] = []
        # Every new connection sets the watches of this table first; on the current connection the
        # caller that adds a root sets its watch.
        self.watches = WatchTable()
        # What a thread repeats while the event loop does not run; None: it only pings.
        self.stall_write: StallFrame | None = None
        self._connected = asyncio.Event()
        self._tasks = TaskScope("zookeeper session")
        options.identity.listen(self.abort_connection)

    # State.

    @property
    def session_id(self) -> int:
        """0 while there is none."""
        return self._session_id

    @property
    def saved(self) -> SavedSession:
        """What a later process needs to take the session up again, once this one is closed."""
        return SavedSession(self._session_id, self._password, self._xids.next())

    @property
    def timeout_s(self) -> float:
        """As negotiated."""
        return self._timeout_s

    @property
    def last_zxid(self) -> int:
        """Newest zxid seen on any connection."""
        return self._line.last_zxid

    @property
    def is_connected(self) -> bool:
        """Whether requests go out at once."""
        return self._connected.is_set() and not self._line.is_closed

    @property
    def in_flight(self) -> int:
        """Requests that are queued or unanswered."""
        return self._line.in_flight

    # Use.

    def start(self) -> None:
        """Begin to connect, and keep connecting until `close`."""
        self._tasks.keep(_guard(self._run(), self._end), "connect")

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Hear session events, after the listeners that came earlier."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait_connected(self) -> None:
        """Return while connected; raise once the session will never connect again."""
        while not self._connected.is_set():
            self._line.check_open()
            await self._connected.wait()
        self._line.check_open()

    def call(self, call: wire.Call[T], timeout_s: float, place: int | None = None) -> Awaitable[T]:
        """Send one request, over this or the next connection; see `RequestPipeline.call`."""
        return self._line.call(call, timeout_s, place)

    async def close(self, *, end_session: bool) -> None:
        """Close for good. Without ``end_session`` the server keeps the session until it expires."""
        if end_session and self.is_connected:
            try:
                await self.call(wire.close_session(), min(_CLOSE_LIMIT_S, self._timeout_s))
            except errors.StoreError as error:
                log.warning("cannot close the session: %s; the server will expire it", error)
        if not self._line.is_closed:
            self._end(errors.StoreClosed("the store is closed"))
        # Even if refused credentials have closed it before.
        await self._tasks.close()

    def abort_connection(self, why: str = "aborted") -> None:
        """Drop the TCP connection; the session comes back by itself."""
        if self._connection is not None:
            self._connection.abort(why)

    # Connecting.

    async def _run(self) -> None:
        while (connection := await self._connect()) is not None:
            keeping = keep_alive(
                connection, self._timeout_s, self._options.watchdog, lambda: self.stall_write
            )
            self._tasks.start(_guard(keeping, self._end), "keep alive")
            why = await connection.wait_closed()
            if self._line.is_closed:
                return
            self._connected.clear()
            self._line.disconnect()
            log.info("connection to ZooKeeper lost: %s; reconnecting", why)
            notify_listeners(self._listeners, SessionEvent.SUSPENDED)
            if isinstance(why, errors.SessionMoved):
                # Resuming it here would start a fight that neither client can win (ZOOKEEPER-2886).
                self._expire("another connection took it over")

    async def _connect(self) -> Connection | None:
        """Try server after server until one accepts us; None once closed."""
        loop, options = asyncio.get_running_loop(), self._options
        began_s, retries = loop.time(), 0
        while not self._line.is_closed:
            timeout_s = self._timeout_s or options.timeout_s
            server = await self._dialer.next_server(timeout_s)
            try:
                async with asyncio.timeout(self._dialer.limit_s(timeout_s)):
                    connection = await self._try_server(server)
            except errors.AuthFailed as error:
                self._end(error)
            except (errors.StoreError, TimeoutError) as error:
                self._dialer.failed(server, str(error) or "timed out")
                outage_s = loop.time() - began_s
                retries += outage_s > timeout_s
                if 0 <= options.max_retries < retries:
                    why = f"no session after {outage_s:.0f} s and {retries} more attempts: {error}"
                    self._end(errors.RetriesUsedUp(why))
                    return None
                if self._dialer.is_at_a_loss:
                    # Concurrently with the attempts: a silent server is waited for.
                    self._tasks.start(self._outlook.look(), "srvr")
                    if behind := await self._find_history(server):
                        self._end(behind)
                        return None
                await asyncio.sleep(self._dialer.delay_s(timeout_s, outage_s))
            else:
                self._dialer.succeeded()
                if connection is not None:
                    self._outlook.on_session()
                    return connection
        return None

    async def _try_server(self, server: Server) -> Connection | None:
        """One attempt; None when the server answered that the session is gone."""
        options = self._options
        # The timeout of a session never grows from server to server: the leader counts from the
        # last touch that reached it, which may be one that a former server reported late.
        is_known = self._session_id != 0 and self._timeout_s > 0
        asked_s = min(options.timeout_s, self._timeout_s) if is_known else options.timeout_s
        connection, handshake = await Connection.open(
            server,
            wire.connect(
                round(asked_s * 1000),
                self._session_id,
                self._password,
                self.last_zxid,
            ),
            on_event=self.watches.notify,
            on_zxid=self._line.observe_zxid,
            on_room=self._line.send_waiting,
            max_frame_bytes=options.max_frame_bytes,
            xids=self._xids,
            tls=options.tls,
            on_reply=options.on_reply,
        )
        try:
            if not handshake.session_id:
                if not self._session_id:
                    raise errors.ConnectionLoss(f"{server} refused to open a session")
                self._expire("the server does not know it any more")
                connection.abort("the session is gone")
                return None
            if self._session_id not in {0, handshake.session_id}:
                # Some servers replace an expired session silently (docs: zookeeper-wire).
                self._expire("the server replaced it")
            await self._prepare(connection)
        except BaseException:
            connection.abort("not ready")
            raise
        self._adopt(connection, handshake)
        return connection

    async def _prepare(self, connection: Connection) -> None:
        """Send credentials and watches before any other request on the connection."""
        await self._options.identity.prove(connection)
        for roots in self.watches.chunks():
            watches = wire.set_watches(self.last_zxid, roots)
            await connection.send_special(wire.XID_SET_WATCHES, watches)

    def _adopt(self, connection: Connection, handshake: wire.Handshake) -> None:
        is_same = self._session_id == handshake.session_id
        self._session_id = handshake.session_id
        self._password = handshake.password
        self._timeout_s = handshake.timeout_ms / 1000
        self._connection = connection
        self.handshake_s = connection.handshake_s
        log.info(
            "%s session 0x%x, timeout %.1f s",
            "resumed" if is_same else "opened",
            self._session_id & 0xFFFFFFFFFFFFFFFF,
            self._timeout_s,
        )
        self._connected.set()
        # Listeners first: caches are empty before a request that waited is answered.
        event = SessionEvent.RECONNECTED if is_same else SessionEvent.CONNECTED
        notify_listeners(self._listeners, event)
        self._line.connect(connection, self._session_id)

    # Ends.

    def _expire(self, why: str) -> None:
        lost = self._session_id & 0xFFFFFFFFFFFFFFFF
        log.warning("session 0x%x is lost: %s; this client abandons it", lost, why)
        self._session_id, self._password = 0, _NO_PASSWORD
        self._line.expire(f"the session is lost: {why}")
        notify_listeners(self._listeners, SessionEvent.EXPIRED)

    def _end(self, error: errors.StoreError) -> None:
        self.ended_by = error
        self._line.close(error)
        if self._connection is not None:
            self._connection.abort(str(error))
        self._connected.set()  # callers that wait for a connection fail now
        notify_listeners(self._listeners, SessionEvent.CLOSED)
