"""The servers of a `MemoryEnsemble`: one leads, the others apply what it commits."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

from broker_ctl.errors import HistoryBehind
from broker_ctl.store.in_process.tree import Committed, Tree
from broker_ctl.store.interface import Notification
from broker_ctl.store.path_rules import ROOT, ancestors_of

# The servers of a `MemoryEnsemble`: one leads, the others apply the transactions that it commits.
#
# A follower lags behind the leader by the transactions that it has not applied yet, and answers
# its clients from its own state. A follower that is cut off from the leader keeps answering reads
# and pings, but reports nothing to the leader (docs: zookeeper-session-rules).


_NO_ZXID: Final = -1


class MemoryClient(Protocol):
    """A connection of a client, from the server's side.

    Attributes:
        server: the server that it is connected to.
        roots: what it watches, each with everything below.
    """

    server: "MemoryServer"
    roots: set[str]

    @property
    def pulse_s(self) -> float | None:
        """Time until which it has certainly sent pings, on the ensemble's clock.

        None: it never stops.
        """
        ...

    def notify(self, notifications: Sequence[Notification]) -> None:
        """Queue the watch events of changes below the roots of the connection."""
        ...

    def drop(self, why: str) -> None:
        """The server closes the connection."""
        ...


class MemoryServer:
    """One server: its applied state, and its clients.

    Attributes:
        most_timeout_s: longest session timeout that it grants.
        held_s: how long it keeps contacts of clients to itself, beyond the usual half tick.
        is_old: from before 3.9, whose watch events do not name their transaction.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.most_timeout_s = math.inf
        self.held_s = 0.0
        self.is_old = False
        self.tree = Tree()
        # By the number of their connection, and by root: a change concerns few of many clients.
        self.clients: dict[MemoryClient, int] = {}
        self._watchers: dict[str, dict[MemoryClient, None]] = {}
        self._numbers = count()
        self.linked = asyncio.Event()
        self.linked.set()
        self.cut_s = 0.0
        self._behind: deque[Committed] = deque()

    @property
    def is_linked(self) -> bool:
        """Whether it is connected to the leader."""
        return self.linked.is_set()

    def admit(self, client: MemoryClient) -> None:
        """Take a connection, with what it watches."""
        client.server = self
        self.clients[client] = next(self._numbers)
        for root in client.roots:
            self.watch(client, root)

    def part(self, client: MemoryClient) -> None:
        """Its connection has ended."""
        self.clients.pop(client, None)
        for root in client.roots:
            self.unwatch(client, root)

    def watch(self, client: MemoryClient, root: str) -> None:
        """Notify a client of changes from here on."""
        self._watchers.setdefault(root, {})[client] = None

    def unwatch(self, client: MemoryClient, root: str) -> None:
        """Notify it no more."""
        watchers = self._watchers.get(root, {})
        watchers.pop(client, None)
        if not watchers:
            self._watchers.pop(root, None)

    def enqueue(self, committed: Committed) -> None:
        """Queue a transaction that the leader committed; `catch_up` applies it."""
        self._behind.append(committed)

    def catch_up(self, most: int | None = None) -> None:
        """Apply the oldest ``most`` queued transactions, or all."""
        if not self.is_linked:
            return
        while self._behind and most != 0:
            committed = self._behind.popleft()
            most = None if most is None else most - 1
            self.tree.apply(committed)
            self.notify_clients(committed)

    def notify_clients(self, committed: Committed) -> None:
        """Notify the clients of an applied transaction."""
        notifications = committed.notifications
        if self.is_old:
            notifications = tuple(one._replace(zxid=_NO_ZXID) for one in notifications)
        # By root, the places of the events below it: most clients watch the same few roots.
        below: dict[str, list[int]] = {}
        for place, one in enumerate(notifications):
            for root in self._roots_of(one.path):
                below.setdefault(root, []).append(place)
        watchers = [(places, self._watchers[root]) for root, places in below.items()]
        if len(watchers) == 1:
            places, clients = watchers[0]
            below_it = [notifications[place] for place in places]
            for client in self._connected([clients]):
                self.send(client, below_it)
            return
        batches: dict[tuple[bool, ...], Sequence[Notification]] = {}
        for client in self._connected(clients for _, clients in watchers):
            key = tuple(client in clients for _, clients in watchers)
            if (batch := batches.get(key)) is None:
                chosen = {
                    place for places, clients in watchers if client in clients for place in places
                }
                batch = batches[key] = [notifications[place] for place in sorted(chosen)]
            self.send(client, batch)

    def send(self, client: MemoryClient, events: Sequence[Notification]) -> None:
        """Send watch events to a client; others may be sent the same sequence."""
        client.notify(events)

    def _roots_of(self, path: str) -> Iterator[str]:
        """The roots that are watched, at a path or above it."""
        return (root for root in (ROOT, *ancestors_of(path), path) if root in self._watchers)

    def _connected(self, watchers: Iterable[Iterable[MemoryClient]]) -> list[MemoryClient]:
        """Those that are connected, in the order of their connections."""
        found: set[MemoryClient] = set()
        return sorted(found.union(*watchers) & self.clients.keys(), key=self.clients.__getitem__)

    def restore(self, tree: Tree) -> None:
        """Start with the state of a copy; nobody is connected."""
        self.drop_all("the server is stopped")
        self._behind.clear()
        self.tree = tree
        self.linked.set()

    def drop_all(self, why: str) -> None:
        """Close all connections."""
        for client in tuple(self.clients):
            client.drop(why)


# The leader's knowledge of a session's liveness (docs: zookeeper-session-rules).
#
# A request or a ping at a follower counts once the follower has reported it, which it does twice
# per tick; contacts at a follower after it was cut off are lost.


@dataclass(slots=True, eq=False)
class MemoryServerSession:
    """One session.

    Attributes:
        timeout_s: as the server granted it that its client connected to last.
        heard_s: last contact by a request that the leader knows of.
        unreported: later contacts with the server that its client is connected to.
        client: its connection, while there is one.
        expiry: timer of the next check.
    """

    session_id: int
    timeout_s: float
    heard_s: float
    client: MemoryClient | None = None
    expiry: asyncio.TimerHandle | None = None
    unreported: deque[float] = field(default_factory=deque)

    def hear(self, now_s: float) -> None:
        """The leader hears from it in this moment, whatever was reported before."""
        self.heard_s = now_s
        self.unreported.clear()

    def touch(self, now_s: float, window_s: float) -> None:
        """Record a request at a server that reports contacts every ``window_s``; 0: at once."""
        if window_s == 0:
            self.hear(now_s)
            return
        if self.client is not None and self.client.server.is_linked:
            self.report(now_s - self.client.server.held_s, window_s)
        self.unreported.append(now_s)

    def report(self, until_s: float, window_s: float) -> None:
        """A follower has reported all contacts before its last report of that time."""
        reported_s = until_s // window_s * window_s if window_s else until_s
        while self.unreported and self.unreported[0] < reported_s:
            self.heard_s = max(self.heard_s, self.unreported.popleft())

    def last_heard_s(
        self, now_s: float, leader: MemoryServer, window_s: float, ping_s: float
    ) -> float:
        """Last contact that the leader knows of, by a request or by a ping."""
        client = self.client
        if client is None:
            return self.heard_s
        until_s = now_s if client.pulse_s is None else client.pulse_s
        if not client.server.is_linked:
            until_s = min(until_s, client.server.cut_s - window_s)
        elif client.server is not leader:
            self.report(now_s, 0.0)
        return max(self.heard_s, until_s - ping_s)


# What is on the disks of the servers: it can be copied, and put back.


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the disk of a server; ``timeouts_s`` by session."""

    tree: Tree
    timeouts_s: Mapping[int, float]


class Disks(ABC):
    """The part of an ensemble that outlives its servers."""

    servers: tuple[MemoryServer, ...]
    leader: MemoryServer
    _sessions: dict[int, MemoryServerSession]

    @property
    @abstractmethod
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the servers."""

    @abstractmethod
    def _watch(self, session: MemoryServerSession) -> None:
        """Schedule a check of the session for the time of its expiry."""

    def timeout_s(self, session_id: int) -> float:
        """The timeout that was granted to a session; 0 if it does not live."""
        session = self._sessions.get(session_id)
        return 0.0 if session is None else session.timeout_s

    def check_history(self, last_zxid: int) -> None:
        """Refuse a client that has seen more than the servers have.

        Raises:
            HistoryBehind: the servers were restored from a copy.
        """
        if last_zxid > self.leader.tree.zxid:
            raise HistoryBehind(
                f"the history ends at {self.leader.tree.zxid:#x}, not {last_zxid:#x}"
            )

    def copy(self) -> Copy:
        """What is on the disks: the tree, and the sessions with their timeouts."""
        timeouts = {one.session_id: one.timeout_s for one in self._sessions.values()}
        return Copy(self.leader.tree.copy(), timeouts)

    def restore(self, copy: Copy, epoch: int | None = None) -> None:
        """All servers start again from a copy, whose sessions have their whole timeouts.

        Args:
            copy: see `copy`.
            epoch: of the next transactions, if an operator has raised it.
        """
        for session in self._sessions.values():
            if session.expiry is not None:
                session.expiry.cancel()
        for server in self.servers:
            server.restore(copy.tree.copy())
            if epoch is not None:
                server.tree.zxid = epoch << 32
        now_s = self.loop.time()
        self._sessions = {
            session_id: MemoryServerSession(session_id, timeout_s, now_s)
            for session_id, timeout_s in copy.timeouts_s.items()
        }
        for session in self._sessions.values():
            self._watch(session)


# Proposals of the leader whose acknowledgements are held, as by servers with a slow disk.
#
# A server pairs a commit with the request that waits for it by session id and xid, and looks at
# nothing else (docs: zookeeper-xids): a client that gives one number to two requests of a session
# gets the answer of the one for the other.


@dataclass(frozen=True, slots=True)
class _Proposal:
    session_id: int
    xid: int
    commit: Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A request of a session at the server that it is connected to."""

    xid: int
    answer: "asyncio.Future[Any]"


class Proposals:
    """Of all servers, in their order.

    Attributes:
        are_held: whether what is proposed now waits for `release`.
    """

    def __init__(self) -> None:
        self.are_held = False
        self._proposed: deque[_Proposal] = deque()
        # By session, the oldest first.
        self._waiting: dict[int, deque[_Waiting]] = {}

    @property
    def are_outstanding(self) -> bool:
        """Whether any waits."""
        return bool(self._proposed)

    def hold(self) -> None:
        """No follower acknowledges any more."""
        self.are_held = True

    async def propose(self, session_id: int, xid: int, commit: Callable[[], Any]) -> Any:
        """Wait for a commit that is taken for that of this request; returns what it returned."""
        waiting = _Waiting(xid, asyncio.get_running_loop().create_future())
        self._proposed.append(_Proposal(session_id, xid, commit))
        queue = self._waiting.setdefault(session_id, deque())
        queue.append(waiting)
        try:
            return await waiting.answer
        finally:
            # A proposal stays when the connection ends; the request does not.
            queue.remove(waiting)

    def release(self) -> None:
        """Commit all in their order."""
        self.are_held = False
        while self._proposed:
            self.release_one()

    def release_one(self) -> None:
        """Commit the oldest, if there is one; what was proposed behind it still waits."""
        if self._proposed:
            proposal = self._proposed.popleft()
            outcome = proposal.commit()
            queue = self._waiting.get(proposal.session_id, ())
            oldest = next((one for one in queue if not one.answer.done()), None)
            if oldest is not None and oldest.xid == proposal.xid:
                oldest.answer.set_result(outcome)
