"""What the leader of the servers knows of a session's life (docs: zookeeper-session-rules).

A request or a ping that a follower took counts once the follower has told of it, which it does
twice in each tick; what a follower was told after it was cut off is lost.
"""

import asyncio
from dataclasses import dataclass

from broker_ctl.testing.memory_store.servers import Client, Server


@dataclass(slots=True, eq=False)
class Session:
    """One session.

    Attributes:
        heard_s: when the leader last heard of it, by requests.
        newest_s: when the server that its client is connected to last did.
        client: its connection, while there is one.
        expiry: looks at it again.
    """

    session_id: int
    timeout_s: float
    heard_s: float
    newest_s: float
    client: Client | None = None
    expiry: asyncio.TimerHandle | None = None

    def touch(self, now_s: float, window_s: float) -> None:
        """A request has arrived at a server that tells of it each ``window_s``; 0: at once."""
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
        """When the leader has last heard of it, by a request or by a ping."""
        client = self.client
        if client is None:
            return self.heard_s
        until_s = now_s if client.pulse_s is None else client.pulse_s
        if not client.server.is_linked:
            until_s = min(until_s, client.server.cut_s - window_s)
        elif client.server is not leader:
            self.heard_s = self.newest_s
        return max(self.heard_s, until_s - ping_s)
