"""How long a broker process may act (I1a)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Authority:
    """A grant: acts may start before ``deadline_s`` on the clock of its holder.

    Attributes:
        session_epoch: the session of the daemon that the grant comes from.
        deadline_s: 0: none was granted, or it was withdrawn.
    """

    session_epoch: int = 0
    deadline_s: float = 0.0

    def is_valid(self, now_s: float) -> bool:
        """Whether an act may start; ask at each act, a timer would fire late."""
        return now_s < self.deadline_s

    def remaining_ms(self, now_s: float) -> int:
        """Whole milliseconds left, rounded down: who passes them on must not lengthen them."""
        return max(0, int((self.deadline_s - now_s) * 1000))
