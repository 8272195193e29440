"""How long the session of a busy event loop is kept alive (docs: busy-loop).

While the loop is busy, a thread sends its pings and heartbeats. A loop that has died looks like a
busy one, so the thread sends none after a limit, and the session expires.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopWatchdog:
    """``limit_s``: longest time since the loop's last turn in which anything is sent for it."""

    limit_s: float

    def pings_until_s(self, turn_s: float, now_s: float) -> float:
        """The newest time, ``now_s`` at most, at which a ping was allowed.

        Args:
            turn_s: last time at which the loop has certainly run.
            now_s: the present, on the same clock.
        """
        return min(now_s, turn_s + self.limit_s)

    def allows_ping(self, turn_s: float, now_s: float) -> bool:
        """Whether a ping may be sent at ``now_s``."""
        return self.pings_until_s(turn_s, now_s) >= now_s
