"""What a run prints about its progress, on stderr."""

import sys
from typing import Final

from tests.chaos.cluster.cluster import now_s

_WIDTH: Final = 30


class Progress:
    """A bar, redrawn in place on a terminal, and a line for each step elsewhere."""

    def __init__(self, seconds: float) -> None:
        self._begin_s = now_s()
        self._seconds = seconds
        self._is_live = sys.stderr.isatty()

    def show(self, doing: str) -> None:
        passed_s = now_s() - self._begin_s
        filled = min(_WIDTH, int(_WIDTH * passed_s / max(self._seconds, 1.0)))
        bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {passed_s:4.0f} s  {doing}"
        sys.stderr.write(f"\r\x1b[K{bar}" if self._is_live else f"{bar}\n")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        sys.stderr.write(f"\r\x1b[K{text}\n" if self._is_live else f"{text}\n")
        sys.stderr.flush()
