"""The servers of a `MemoryEnsemble`: one leads, the others apply the transactions that it commits.

A follower lags behind the leader by the transactions that it has not applied yet, and answers its
clients from its own state. A follower that is cut off from the leader keeps answering reads and
pings, but reports nothing to the leader (docs: zookeeper-session-rules).
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from broker_ctl.store.in_process.tree import Committed, Tree
from broker_ctl.store.interface import Notification

_NO_ZXID: Final = -1


class Client(Protocol):
    """A connection of a client, from the server's side.

    Attributes:
        server: the server that it is connected to.
    """

    server: "Server"

    @property
    def pulse_s(self) -> float | None:
        """Time until which it has certainly sent pings, on the ensemble's clock.

        None: it never stops.
        """
        ...

    def notify(self, notifications: Sequence[Notification]) -> None:
        """Queue the watch event of a change, if the connection watches its path."""
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
        self.clients: dict[Client, None] = {}
        self.linked = asyncio.Event()
        self.linked.set()
        self.cut_s = 0.0
        self._behind: deque[Committed] = deque()

    @property
    def is_linked(self) -> bool:
        """Whether it is connected to the leader."""
        return self.linked.is_set()

    def enqueue(self, committed: Committed) -> None:
        """Queue a transaction that the leader committed; `catch_up` applies it."""
        self._behind.append(committed)

    def catch_up(self, count: int | None = None) -> None:
        """Apply the oldest ``count`` queued transactions, or all."""
        if not self.is_linked:
            return
        while self._behind and count != 0:
            committed = self._behind.popleft()
            count = None if count is None else count - 1
            self.tree.apply(committed)
            self.notify_clients(committed)

    def notify_clients(self, committed: Committed) -> None:
        """Notify the clients of an applied transaction."""
        notifications = committed.notifications
        if self.is_old:
            notifications = tuple(one._replace(zxid=_NO_ZXID) for one in notifications)
        for client in tuple(self.clients):
            client.notify(notifications)

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
