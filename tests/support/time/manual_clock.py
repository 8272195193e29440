"""A clock that stands still until the test moves it."""


class ManualClock:
    def __init__(self, now_s: float = 1_000.0) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return int(self.time_s * 1000)
