"""The servers of a `MemoryEnsemble`: one leads, the others apply the transactions that it commits.

A follower lags behind the leader by the transactions that it has not applied yet, and answers its
clients from its own state. A follower that is cut off from the leader keeps answering reads and
pings, but reports nothing to the leader (docs: zookeeper-session-rules).
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final, Protocol

from broker_ctl.store.in_process.tree import Committed, Tree
from broker_ctl.store.interface import Notification
from broker_ctl.store.path_rules import ROOT, ancestors_of

_NO_ZXID: Final = -1


class Client(Protocol):
    """A connection of a client, from the server's side.

    Attributes:
        server: the server that it is connected to.
        roots: what it watches, each with everything below.
    """

    server: "Server"
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


class Server:
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
        self.clients: dict[Client, int] = {}
        self._watchers: dict[str, dict[Client, None]] = {}
        self._numbers = count()
        self.linked = asyncio.Event()
        self.linked.set()
        self.cut_s = 0.0
        self._behind: deque[Committed] = deque()

    @property
    def is_linked(self) -> bool:
        """Whether it is connected to the leader."""
        return self.linked.is_set()

    def admit(self, client: Client) -> None:
        """Take a connection, with what it watches."""
        client.server = self
        self.clients[client] = next(self._numbers)
        for root in client.roots:
            self.watch(client, root)

    def part(self, client: Client) -> None:
        """Its connection has ended."""
        self.clients.pop(client, None)
        for root in client.roots:
            self.unwatch(client, root)

    def watch(self, client: Client, root: str) -> None:
        """Notify a client of changes from here on."""
        self._watchers.setdefault(root, {})[client] = None

    def unwatch(self, client: Client, root: str) -> None:
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

    def send(self, client: Client, events: Sequence[Notification]) -> None:
        """Send watch events to a client; others may be sent the same sequence."""
        client.notify(events)

    def _roots_of(self, path: str) -> Iterator[str]:
        """The roots that are watched, at a path or above it."""
        return (root for root in (ROOT, *ancestors_of(path), path) if root in self._watchers)

    def _connected(self, watchers: Iterable[Iterable[Client]]) -> list[Client]:
        """Those that are connected, in the order of their connections."""
        found: set[Client] = set()
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
