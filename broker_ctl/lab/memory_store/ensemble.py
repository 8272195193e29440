"""The server side: one history of transactions, and the sessions with their expiry.

Sessions expire on the time of the ensemble's loop, so a loop with a virtual clock expires them in
virtual time. Only the leader expires them, by the last contact that it knows of (docs:
zookeeper-session-rules): a request or a ping at a follower counts once the follower has reported
it.
"""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from broker_ctl.errors import ConnectionLoss, SessionExpired
from broker_ctl.lab.memory_store.servers import (
    Disks,
    MemoryClient,
    MemoryServer,
    MemoryServerSession,
    Proposals,
)
from broker_ctl.store.in_process.tree import Author, Tree
from broker_ctl.store.interface import Delete, Operation, Result

# A session id starts with the number of the server that made it; from 128 on it is negative.
_SERVERS: Final = (1, 199, 42)
_NO_SESSION: Final = 0


@dataclass(frozen=True, slots=True)
class EnsembleRules:
    """How the servers behave.

    Attributes:
        servers: number of servers.
        tick_s: sessions expire at a multiple of it; followers report contacts twice per tick.
        ping_s: pause between two pings of a client: the largest age of its last contact when its
            connection ends.
        lag: draws the seconds that a follower takes to apply a transaction.
        new_server: makes one, by its number.
    """

    servers: int = 1
    tick_s: float = 0.0
    ping_s: float = 0.0
    lag: Callable[[], float] = lambda: 0.0
    new_server: Callable[[int], MemoryServer] = MemoryServer


class MemoryEnsemble(Disks):
    """The ensemble that all `MemoryStore`s of a test or a simulation share.

    ``proposals`` are those that wait. ``rng`` draws the server that a client connects to. Without
    ``loop`` the running one is used.
    """

    def __init__(
        self,
        rules: EnsembleRules | None = None,
        rng: random.Random | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._rules = rules or EnsembleRules()
        self._rng = rng
        self._loop = loop
        self.servers = tuple(map(self._rules.new_server, range(self._rules.servers)))
        self.leader = self.servers[0]
        self._is_serving = True
        self.proposals = Proposals()
        self._sessions: dict[int, MemoryServerSession] = {}
        self._numbers = count(1)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the servers."""
        return self._loop or asyncio.get_running_loop()

    @property
    def tree(self) -> Tree:
        """The committed tree."""
        return self.leader.tree

    @property
    def session_ids(self) -> frozenset[int]:
        """Ids of live sessions, connected or not."""
        return frozenset(self._sessions)

    # Connections.

    def attach(self, client: MemoryClient, session_id: int, timeout_s: float) -> int:
        """Connect to a session, or open one if ``session_id`` is 0; returns its id.

        The server that the client comes to may grant a shorter timeout than the one before.

        Raises:
            SessionExpired: the session has expired.
            ConnectionLoss: no server accepts clients now.
        """
        serving = [server for server in self.servers if self._is_serving and server.is_linked]
        if not serving:
            raise ConnectionLoss("no server takes clients")
        now_s = self.loop.time()
        if session_id == _NO_SESSION:
            session_id = _session_id(next(self._numbers))
            self._sessions[session_id] = MemoryServerSession(session_id, timeout_s, now_s)
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionExpired("the server does not know the session")
        former, session.client = session.client, client
        server = serving[0] if self._rng is None else self._rng.choice(serving)
        # The server must not lag behind the newest zxid that the client has observed.
        server.catch_up()
        server.admit(client)
        # The leader counts with it from here on, also if the client never learns of it.
        session.timeout_s = min(timeout_s, server.most_timeout_s)
        session.hear(now_s)
        self._watch(session)
        if former is not None:
            former.drop("another connection took the session over")
        return session_id

    def detach(self, client: MemoryClient, session_id: int) -> None:
        """Handle the end of a connection; the session lives on for its timeout."""
        client.server.part(client)
        session = self._sessions.get(session_id)
        if session is None or session.client is not client:
            return
        session.hear(self._heard_s(session))
        session.client = None
        self._watch(session)

    def touch(self, session_id: int) -> None:
        """Record a request that has arrived at the server of its client."""
        session = self._sessions.get(session_id)
        if session is None or session.client is None:
            return
        is_leader = session.client.server is self.leader
        session.touch(self.loop.time(), 0.0 if is_leader else self._rules.tick_s / 2)

    # Sessions.

    def _watch(self, session: MemoryServerSession) -> None:
        """Schedule a check of the session for the time of its expiry, if it can expire."""
        if session.expiry is not None:
            session.expiry.cancel()
            session.expiry = None
        client = session.client
        if client is None or client.pulse_s is not None or not client.server.is_linked:
            at_s = self._end_s(session)
            session.expiry = self.loop.call_at(at_s, self._look, session)

    def _look(self, session: MemoryServerSession) -> None:
        if self._end_s(session) > self.loop.time() or not self._is_serving:
            self._watch(session)
        else:
            self.expire(session.session_id)

    def _end_s(self, session: MemoryServerSession) -> float:
        end_s, tick_s = self._heard_s(session) + session.timeout_s, self._rules.tick_s
        if not self._is_serving:
            # The next leader gives every session its whole timeout.
            end_s = self.loop.time() + session.timeout_s
        return math.ceil(end_s / tick_s) * tick_s if tick_s else end_s

    def _heard_s(self, session: MemoryServerSession) -> float:
        tick_s, ping_s = self._rules.tick_s, self._rules.ping_s
        return session.last_heard_s(self.loop.time(), self.leader, tick_s / 2, ping_s)

    def expire(self, session_id: int) -> None:
        """End a session, as its timeout would; its connection is closed."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        self.end(session_id)
        # A server that is cut off does not learn of it.
        if session.client is not None and session.client.server.is_linked:
            session.client.drop("the session has expired")

    def drop(self, session_id: int, why: str) -> None:
        """The server closes the connection of a session, which may come back."""
        session = self._sessions.get(session_id)
        if session is not None and session.client is not None:
            session.client.drop(why)

    def end(self, session_id: int) -> None:
        """End a session: its ephemeral nodes go in one transaction."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        # What was proposed before is committed before.
        self.proposals.release()
        if self._sessions.get(session_id) is not session:
            # Among that was its end: a client that reconnects while it closes asks for it twice.
            return
        if session.expiry is not None:
            session.expiry.cancel()
        self._commit([Delete(path) for path in self.tree.ephemerals(session_id)], session_id)
        del self._sessions[session_id]

    # Requests.

    def write(self, session_id: int, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """Commit a transaction.

        Raises:
            SessionExpired: the session lives no more; nothing was done.
            MultiFailed: an operation failed; nothing was done.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionExpired("the session has expired")
        results = self._commit(operations, session_id)
        if session.client is not None:
            # The writer's server applies the transaction at once.
            session.client.server.catch_up()
        return results

    def reap(self) -> None:
        """Delete the nodes that a real server's container check finds each minute."""
        for path in self.tree.reapable(round(self.loop.time() * 1000)):
            self._commit([Delete(path)], _NO_SESSION)

    def _commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Result, ...]:
        author = Author(session_id, round(self.loop.time() * 1000))
        committed = self.tree.commit(operations, author)
        self.leader.notify_clients(committed)
        for server in self.servers:
            if server is not self.leader:
                server.enqueue(committed)
                lag_s = self._rules.lag()
                if lag_s > 0:
                    self.loop.call_later(lag_s, server.catch_up, 1)
                else:
                    server.catch_up()
        return committed.results

    # Faults of the servers.

    def cut_off(self, server: MemoryServer) -> None:
        """Cut a follower off from the leader, but not from its clients."""
        reported_s = self.loop.time() - server.held_s
        for session in self._sessions.values():
            if session.client is not None and session.client.server is server:
                session.report(reported_s, self._rules.tick_s / 2)
        server.linked.clear()
        server.cut_s = reported_s
        for session in self._sessions.values():
            if session.client is not None and session.client.server is server:
                self._watch(session)

    def link(self, server: MemoryServer) -> None:
        """Reconnect a follower to the leader.

        It catches up, and reports the contacts of its clients.
        """
        server.linked.set()
        server.catch_up()
        for client in tuple(server.clients):
            if not any(session.client is client for session in self._sessions.values()):
                client.drop("the session has expired")

    def change_leader(self, election_s: float) -> None:
        """Stop the leader; another one serves after ``election_s``.

        Every session gets its whole timeout again.
        """
        for server in self.servers:
            server.linked.set()
            server.catch_up()
        self.proposals.release()
        number = self.leader.number + 1
        self.leader = self.servers[number % len(self.servers)]
        self._is_serving = False
        for server in self.servers:
            server.drop_all("there is no leader")
        self.loop.call_later(election_s, self._serve)

    def _serve(self) -> None:
        if self._is_serving:
            return
        # A zxid is the leader's epoch and a counter.
        zxid = ((self.tree.zxid >> 32) + 1) << 32
        for server in self.servers:
            server.tree.zxid = zxid
        self._is_serving = True
        for session in self._sessions.values():
            session.hear(self.loop.time())
            self._watch(session)


def _session_id(number: int) -> int:
    server = _SERVERS[number % len(_SERVERS)]
    return int.from_bytes(bytes([server]) + number.to_bytes(7, "big"), "big", signed=True)
