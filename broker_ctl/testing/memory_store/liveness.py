"""The leader's knowledge of a session's liveness (docs: zookeeper-session-rules).

A request or a ping at a follower counts once the follower has reported it, which it does twice per
tick; contacts at a follower after it was cut off are lost.
"""

import asyncio
from dataclasses import dataclass

from broker_ctl.testing.memory_store.servers import Client, Server


@dataclass(slots=True, eq=False)
class Session:
    """One session.

    Attributes:
        heard_s: last contact by a request that the leader knows of.
        newest_s: last contact with the server that its client is connected to.
        client: its connection, while there is one.
        expiry: timer of the next check.
    """

    session_id: int
    timeout_s: float
    heard_s: float
    newest_s: float
    client: Client | None = None
    expiry: asyncio.TimerHandle | None = None

    def touch(self, now_s: float, window_s: float) -> None:
        """Record a request at a server that reports contacts every ``window_s``; 0: at once."""
        if window_s == 0:
            self.heard_s = now_s
        elif self.client is not None and self.client.server.is_linked:
            self.heard_s = self.reported_s(now_s, window_s)
        self.newest_s = now_s

    def reported_s(self, now_s: float, window_s: float) -> float:
        """Last contact that a follower has reported by now."""
        reported_s = now_s // window_s * window_s if window_s else now_s
        return self.newest_s if self.newest_s < reported_s else self.heard_s

    def last_heard_s(self, now_s: float, leader: Server, window_s: float, ping_s: float) -> float:
        """Last contact that the leader knows of, by a request or by a ping."""
        client = self.client
        if client is None:
            return self.heard_s
        until_s = now_s if client.pulse_s is None else client.pulse_s
        if not client.server.is_linked:
            until_s = min(until_s, client.server.cut_s - window_s)
        elif client.server is not leader:
            self.heard_s = self.newest_s
        return max(self.heard_s, until_s - ping_s)
