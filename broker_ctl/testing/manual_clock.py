"""A clock that advances only when a test assigns its time."""


class ManualClock:
    """A `broker_ctl.clock.Clock` that only a test moves.

    Attributes:
        time_s: the time, in seconds; assign to move the clock.
    """

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        """Monotonic time, in seconds."""
        return self.time_s

    def wall_ms(self) -> int:
        """Wall-clock time, in milliseconds."""
        return int(self.time_s * 1000)

    def cpu_s(self) -> float:
        """The same time, in seconds."""
        return self.time_s
