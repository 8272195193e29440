"""The leader's knowledge of a session's liveness (docs: zookeeper-session-rules).

A request or a ping at a follower counts once the follower has reported it, which it does twice per
tick; contacts at a follower after it was cut off are lost.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from broker_ctl.testing.memory_store.servers import Client, Server


@dataclass(slots=True, eq=False)
class Session:
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
    client: Client | None = None
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

    def last_heard_s(self, now_s: float, leader: Server, window_s: float, ping_s: float) -> float:
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
