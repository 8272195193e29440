"""How far the placement of orphans has come, and when it will be over."""


class OrphanProgress:
    """Orphans by the newest view, and their largest number since there was none."""

    def __init__(self) -> None:
        self.left = 0
        self._most = 0
        self._began_s = 0.0
        self._seen_s = 0.0

    def observe(self, left: int, now_s: float) -> None:
        """Count the orphans of a view; as many as ever before begin it again."""
        self.left, self._seen_s = left, now_s
        if left == 0 or left >= self._most:
            self._most, self._began_s = left, now_s

    @property
    def eta_s(self) -> float | None:
        """Seconds until all are placed, at the rate so far; None: none has been placed yet."""
        if self.left == 0:
            return 0.0
        placed, took_s = self._most - self.left, self._seen_s - self._began_s
        return self.left * took_s / placed if placed > 0 and took_s > 0 else None
