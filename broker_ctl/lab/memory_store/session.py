"""The client side: a session that outlives its connections, and a new one when it expires."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from broker_ctl import errors
from broker_ctl.clock import Clock
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.servers import Proposals
from broker_ctl.lab.memory_store.transport import (
    Faults,
    MemoryRequest,
    MemoryTransport,
    Reply,
    RequestKind,
    StallThread,
    Transit,
)
from broker_ctl.store.in_process.tree import Tree
from broker_ctl.store.interface import (
    Create,
    Notification,
    NotificationListener,
    SavedSession,
    SessionEvent,
    SessionListener,
)
from broker_ctl.store.zookeeper import resolve
from broker_ctl.store.zookeeper.connection import Xids
from broker_ctl.store.zookeeper.watches import WatchTable
from broker_ctl.tasks import TaskScope

# The requests of one store in the order in which they were made, across its connections.
#
# Requests that a cut left unanswered go first on the next connection: a read is sent again, so
# that no state from before the cut is returned after it; a write is resolved from its nodes, by
# the rules of the client of a real ensemble (docs: ambiguous-writes).


_MOST_IN_FLIGHT: Final = 1000


class MemoryRequestPipeline:
    """Requests that wait for a connection, and the connection that sends them."""

    def __init__(self, proposals: Proposals) -> None:
        self._proposals = proposals
        self._link: MemoryTransport | None = None
        # Lost writes that are resolved behind what is proposed.
        self._lost: deque[MemoryRequest] = deque()
        self._waiting: deque[MemoryRequest] = deque()
        self._slots = asyncio.Semaphore(_MOST_IN_FLIGHT)
        self.closed_by: errors.StoreError | None = None
        self.last_zxid = 0

    async def call(self, request: MemoryRequest, deadline_s: float) -> Any:
        """Send a request and wait for its answer until ``deadline_s`` of the running loop.

        Raises:
            ConnectionLoss: it was not sent by then.
            OperationTimeout: a read that was not answered by then.
            Ambiguous: a write that was sent, and whose outcome cannot be resolved.
            SessionExpired: a write that was not sent, or that created ephemeral nodes in the
                session that is lost.
        """
        try:
            async with asyncio.timeout_at(deadline_s), self._slots:
                self.check_open()
                self._submit(request)
                return await request.future
        except TimeoutError:
            raise self._timed_out(request) from None
        finally:
            # No caller waits for the request any more: if it was not sent, it never will be.
            if request in self._waiting:
                self._waiting.remove(request)

    def check_open(self) -> None:
        """Raise the error that the pipeline was closed with."""
        if self.closed_by is not None:
            raise type(self.closed_by)(str(self.closed_by))

    def connect(self, link: MemoryTransport) -> None:
        """Send queued and later requests over ``link``."""
        self._link = link
        waiting, self._waiting = self._waiting, deque()
        # The server applies all committed transactions before it answers.
        link.server.catch_up()
        for request in waiting:
            if not (request.is_sent and request.operations):
                self._submit(request)
            elif not self._proposals.are_outstanding:
                self._resolve(request, link)
            else:
                if not self._lost:
                    self._submit(self._sync())
                self._lost.append(request)

    def _sync(self) -> MemoryRequest:
        """A lost write may still be a proposal: its nodes show it behind the answer to this."""
        request = MemoryRequest("sync", lambda *_: None, RequestKind.SYNC)
        request.future.add_done_callback(self._synced)
        return request

    def _synced(self, synced: "asyncio.Future[Any]") -> None:
        lost, self._lost = self._lost, deque()
        error = None if synced.cancelled() else synced.exception()
        for request in lost:
            if isinstance(error, errors.StoreError):
                request.fail(type(error)(str(error)))
            elif self._link is None:
                self._waiting.append(request)
            elif not request.future.done():
                self._resolve(request, self._link)

    def disconnect(self) -> None:
        """Handle the end of a connection: its unanswered requests go to the front of the queue."""
        if self._link is not None:
            self._waiting.extendleft(
                request for request in reversed(self._link.unanswered) if not request.future.done()
            )
            self._link = None

    def expire(self) -> None:
        """Fail writes of the lost session: they must not be applied in the next one."""
        for request in tuple(self._waiting):
            is_bound = any(
                isinstance(operation, Create) and operation.mode.is_ephemeral
                for operation in request.operations
            )
            is_write = bool(request.operations) or request.kind is RequestKind.CLOSE_SESSION
            if is_bound or (is_write and not request.is_sent):
                self._waiting.remove(request)
                request.fail(errors.SessionExpired(f"{request.what}: its session is lost"))

    def close(self, error: errors.StoreError) -> None:
        """Fail all requests, and every later one."""
        self.closed_by = error
        for request in (*self._waiting, *self._lost):
            request.fail(type(error)(str(error)))

    def arrive(self, reply: Reply) -> None:
        """Handle a reply."""
        if reply.error is not None:
            reply.request.fail(reply.error)
        else:
            reply.request.answer(reply.value)

    def _submit(self, request: MemoryRequest) -> None:
        if self._link is None:
            self._waiting.append(request)
        elif not request.future.done():
            request.is_sent = True
            request.session_id, request.zxid_before = self._link.session_id, self.last_zxid
            self._link.send(request)

    def _resolve(self, request: MemoryRequest, link: MemoryTransport) -> None:
        """Resolve a lost write as `store.zookeeper.requests` does, from the current nodes."""
        tree = link.server.tree
        operations = request.operations
        nodes = {operation.path: tree.find(operation.path) for operation in operations}
        sender = resolve.WriteSender(request.session_id, request.zxid_before)
        verdict = resolve.judge(operations, nodes, sender)
        if verdict is resolve.WriteVerdict.UNKNOWN:
            request.fail(self._ambiguous(request, "the nodes do not show it"))
        elif verdict is resolve.WriteVerdict.APPLIED:
            lost = self._ambiguous(request, "done, and written over since")
            resolved = resolve.results(operations, nodes)
            request.answer(
                tuple(
                    lost if isinstance(result, resolve.WriteVerdict) else result
                    for result in resolved
                )
            )
        elif link.session_id == request.session_id:
            self._submit(request)
        else:
            request.fail(errors.SessionExpired(f"{request.what}: its session is lost"))

    def _timed_out(self, request: MemoryRequest) -> errors.StoreError:
        if not request.is_sent:
            return errors.ConnectionLoss(f"{request.what}: not sent by its deadline")
        if request.operations:
            return self._ambiguous(request, "no answer by its deadline")
        return errors.OperationTimeout(f"{request.what}: no answer by its deadline")

    def _ambiguous(self, request: MemoryRequest, why: str) -> errors.Ambiguous:
        return errors.Ambiguous(f"{request.what}: {why}", request.session_id, request.zxid_before)


# The client side: a session that outlives its connections, and a new one when it expires.
#
# state        event                        next         notification
# new          attached                     connected    CONNECTED
# connected    cut, or the session expired  suspended    SUSPENDED
# suspended    attached again               connected    RECONNECTED
# suspended    the session lives no more    new          EXPIRED
# any          close                        closed       CLOSED


_CLOSE_LIMIT_S: Final = 2.0
_REFUSED_S: Final = 0.1
_HANDSHAKE_LIMIT_S: Final = 2.0


class MemorySession:
    """Keeps a connection, and reconnects, until it is closed."""

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        transit: Transit,
        timeout_s: float,
        resumed: SavedSession,
        *,
        faults: Faults | None = None,
        pulse: Callable[[], float] | None = None,
        stalls: StallThread | None = None,
        is_batching: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock
        self.handshake_s = 0.0
        self._ensemble = ensemble
        self._transit = transit
        self._timeout_s = timeout_s
        self._granted_s = timeout_s
        self._faults = faults
        self._pulse = pulse
        self._stalls = stalls
        self._is_batching = is_batching
        self.session_id = resumed.session_id
        self._xids = Xids(resumed.last_xid)
        self.line = MemoryRequestPipeline(ensemble.proposals)
        self._link: MemoryTransport | None = None
        self._watches = WatchTable()
        self._listeners: list[SessionListener] = []
        self._network = asyncio.Event()
        self._network.set()
        self._unlinked = asyncio.Event()
        self._connected = asyncio.Event()
        self._is_closed = False
        # Why the session ended; None while requests can be sent.
        self.ended_by: errors.StoreError | None = None
        self._tasks = TaskScope("memory session")

    @property
    def timeout_s(self) -> float:
        """0 while there is no session."""
        return self._granted_s if self.session_id else 0.0

    @property
    def saved(self) -> SavedSession:
        """What resumes the session; there is no password."""
        return SavedSession(self.session_id, b"", self._xids.next())

    @property
    def is_connected(self) -> bool:
        """Whether requests go out at once."""
        return self._connected.is_set() and self.ended_by is None

    def start(self) -> None:
        """Begin to connect."""
        self._tasks.keep(self._run(), "connect")

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Hear session events, after the listeners that came earlier."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait_connected(self) -> None:
        """Return while connected; raise StoreClosed once the session will never connect again."""
        self.line.check_open()
        while not self._connected.is_set():
            await self._connected.wait()
            # The event was set, but the connection may be lost again, or the store closed.
            self.line.check_open()

    async def watch(
        self,
        root: str,
        listener: NotificationListener,
        deadline_s: float,
    ) -> Callable[[], None]:
        """A recursive watch, set again on every connection."""
        remove = self._watches.add(root, listener)

        def set_watch(_session_id: int, _tree: Tree) -> None:
            if self._link is not None:
                self._link.watch(root)

        def stop() -> None:
            remove()
            if self._link is not None and root not in self._watches.roots:
                self._link.unwatch(root)

        try:
            await self.line.call(
                MemoryRequest(f"watch {root}", set_watch, RequestKind.ADD_WATCH), deadline_s
            )
        except BaseException:
            stop()
            raise
        return stop

    async def close(self, *, end_session: bool) -> None:
        """Close for good. Without ``end_session`` the session is left to expire."""
        if self._is_closed:
            return
        if end_session and self.is_connected:
            deadline_s = asyncio.get_running_loop().time() + _CLOSE_LIMIT_S

            def end(session_id: int, _tree: Tree) -> None:
                self._ensemble.end(session_id)

            request = MemoryRequest("closeSession", end, RequestKind.CLOSE_SESSION)
            # The connection may be cut meanwhile; then the session is left to expire.
            with contextlib.suppress(errors.StoreError):
                await self.line.call(request, deadline_s)
        self._is_closed = True
        self._unlink()
        if self.ended_by is None:
            self.give_up(errors.StoreClosed("the store is closed"))
        await self._tasks.close()

    # The network, as tests control it.

    def disconnect(self) -> None:
        """Cut the connection, and allow no other until `reconnect`."""
        self._network.clear()
        self._lose()

    def reconnect(self) -> None:
        """Allow connections again."""
        self._network.set()

    def give_up(self, error: errors.StoreError) -> None:
        """End the session as a server does that refuses its credentials."""
        self.ended_by = error
        self.line.close(error)
        self._connected.set()  # callers that wait for a connection fail now
        self._notify(SessionEvent.CLOSED)

    # Connecting.

    async def _run(self) -> None:
        while self.ended_by is None:
            await self._network.wait()
            is_connected = False
            try:
                async with asyncio.timeout(_HANDSHAKE_LIMIT_S):
                    is_connected = await self._connect()
            except TimeoutError:
                # The server may have accepted it.
                self._unlink()
            except errors.ConnectionLoss:
                await asyncio.sleep(_REFUSED_S)
            if is_connected:
                await self._unlinked.wait()

    async def _connect(self) -> bool:
        """One handshake; the network may be cut, or the session may expire, at each await."""
        sent_s = self._now_s()
        await self._transit()
        if not self._network.is_set():
            return False
        link = MemoryTransport(
            self._ensemble,
            self._transit,
            self._xids,
            faults=self._faults,
            on_arrival=self._arrive,
            on_drop=self._dropped,
            pulse=self._pulse,
            stalls=self._stalls,
            is_batching=self._is_batching,
        )
        link.roots.update(self._watches.roots)
        try:
            self._ensemble.check_history(self.line.last_zxid)
            # The timeout of a session never grows from server to server.
            asked_s = self._granted_s if self.session_id else self._timeout_s
            link.session_id = self._ensemble.attach(link, self.session_id, asked_s)
        except errors.HistoryBehind as behind:
            self.give_up(behind)
            return False
        except errors.SessionExpired:
            await self._transit()
            if self._network.is_set():
                self._expire()
            return False
        link.timeout_s = self._ensemble.timeout_s(link.session_id)
        self._link = link
        # An earlier cut does not apply to this connection.
        self._unlinked.clear()
        await self._transit()
        if self._link is link:
            self.handshake_s = sent_s
            self._adopt(link)
        return True

    def _now_s(self) -> float:
        """On the clock of the client, which may have slept."""
        return self._ensemble.loop.time() if self._clock is None else self._clock.now_s()

    def _adopt(self, link: MemoryTransport) -> None:
        is_same = self.session_id == link.session_id
        self.session_id = link.session_id
        self._granted_s = link.timeout_s
        self._connected.set()
        # Listeners first: caches are empty before a request that waited is answered.
        self._notify(SessionEvent.RECONNECTED if is_same else SessionEvent.CONNECTED)
        # A listener may have cut it already.
        if self._link is link:
            link.start()
            self.line.connect(link)

    def _dropped(self, link: MemoryTransport) -> None:
        """Handle a connection that the server closed; it may be an earlier one."""
        if self._link is link:
            self._lose()

    def _lose(self) -> None:
        was_connected = self.is_connected
        self._unlink()
        if was_connected:
            self._connected.clear()
            self._notify(SessionEvent.SUSPENDED)

    def _unlink(self) -> None:
        link, self._link = self._link, None
        self.line.disconnect()
        if link is not None:
            link.cut()
        self._unlinked.set()

    def _expire(self) -> None:
        self.session_id = 0
        self.line.expire()
        self._notify(SessionEvent.EXPIRED)

    # Replies and watch events.

    def _arrive(self, arrival: Reply | Notification) -> None:
        self.line.last_zxid = max(self.line.last_zxid, arrival.zxid)
        if isinstance(arrival, Reply):
            self.line.arrive(arrival)
            if isinstance(arrival.error, errors.TooLarge):
                # The rest of the frame cannot be skipped.
                self._lose()
            return
        self._watches.notify(arrival)

    def _notify(self, event: SessionEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)
