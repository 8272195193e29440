"""Durations in seconds, derived from settings in any unit."""

from typing import Final

_SECONDS: Final = {"ms": (1, 1000), "minutes": (60, 1)}


class InSeconds:
    """The value of another field in seconds: ``poll_s = InSeconds("poll_ms")``."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._factor, self._divisor = _SECONDS[field.rpartition("_")[2]]

    def __get__(self, settings: object, owner: type) -> float:
        value: float = getattr(settings, self._field)
        return value * self._factor / self._divisor
