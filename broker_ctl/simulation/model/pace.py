"""Delays in a simulated cluster."""

from dataclasses import dataclass

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Delays, and the frequency of the leader's cycles.

    Attributes:
        report_delay_min: in minute t the leader sees the load of minute t less this.
        unload_s: from the order to the end of serving a bundle; what is sent meanwhile is lost.
        reconnect_s: from there until its clients are back.
        cycles_per_minute: the leader decides again within the minute, once all is done, where
            budgets of moves in flight have cut its plan short.
    """

    report_delay_min: int = 1
    unload_s: float = 2.0
    reconnect_s: float = 3.0
    cycles_per_minute: int = 1

    @property
    def move_s(self) -> float:
        """Time from the command of a move until clients are served again."""
        return self.unload_s + self.reconnect_s

    @property
    def most_cycles(self) -> int:
        """Cycles that there is time for in one minute; each waits for the moves of the last."""
        if self.move_s <= 0:
            return self.cycles_per_minute
        return max(1, min(self.cycles_per_minute, int(_MINUTE_S / self.move_s)))
