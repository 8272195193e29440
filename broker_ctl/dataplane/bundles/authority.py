"""How long a broker process may act (I1a)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Authority:
    """A grant: its holder may start acts before ``deadline_s`` on its own clock.

    Attributes:
        session_epoch: the session of the daemon that the grant comes from.
        deadline_s: 0 if no authority was granted, or if it was withdrawn.
    """

    session_epoch: int = 0
    deadline_s: float = 0.0

    def is_valid(self, now_s: float) -> bool:
        """Whether an act may start; check it at each act, since a timer would fire late."""
        return now_s < self.deadline_s

    def remaining_ms(self, now_s: float) -> int:
        """Whole milliseconds left.

        Rounded down so that passing them on does not extend the grant.
        """
        return max(0, int((self.deadline_s - now_s) * 1000))
