"""The servers of a `MemoryEnsemble`: one leads, the others follow what it committed.

A follower is behind the leader by what it has not applied yet, and shows its clients no more than
that. One that is cut off from the leader goes on answering reads and pings while nothing of it
reaches the leader (docs: zookeeper-session-rules).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from broker_ctl.store.interface import Notification
from broker_ctl.testing.memory_store.tree import Committed, Tree


class Client(Protocol):
    """The far end of a connection, as a server knows it.

    Attributes:
        server: where it is connected.
    """

    server: "Server"

    @property
    def pulse_s(self) -> float | None:
        """Until when it has surely sent pings, on the ensemble's clock; None: it never stops."""
        ...

    def notify(self, notifications: Sequence[Notification]) -> None:
        """Something changed; the connection knows what is watched. It must not act on it yet."""
        ...

    def drop(self, why: str) -> None:
        """The server closes the connection."""
        ...


class Server:
    """One server: what it has applied, and who is connected to it."""

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
        """Whether it hears the leader, and the leader hears it."""
        return self.linked.is_set()

    def enqueue(self, committed: Committed) -> None:
        """Queue a transaction that the leader committed; `catch_up` applies it."""
        self._behind.append(committed)

    def catch_up(self, count: int | None = None) -> None:
        """Apply the oldest ``count`` transactions that it is behind, or all."""
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
