"""The servers of a `MemoryEnsemble`: one leads, the others apply the transactions that it commits.

A follower lags behind the leader by the transactions that it has not applied yet, and answers its
clients from its own state. A follower that is cut off from the leader keeps answering reads and
pings, but reports nothing to the leader (docs: zookeeper-session-rules).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from broker_ctl.store.interface import Notification
from broker_ctl.testing.memory_store.tree import Committed, Tree


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
    """One server: its applied state, and its clients."""

    def __init__(self, number: int) -> None:
        self.number = number
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
        for client in tuple(self.clients):
            client.notify(committed.notifications)

    def drop_all(self, why: str) -> None:
        """Close all connections."""
        for client in tuple(self.clients):
            client.drop(why)
