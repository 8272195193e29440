"""Quiet hours: times of the day at which only urgent moves are made.

Times are in UTC: a cluster may span time zones, and with summer time one hour of the year would
occur twice. A range includes its start and excludes its end, and may cross midnight.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

ALLOWED: Final = "ranges of the day in UTC, as 22:00-06:00,12:00-13:00; empty is none"
_DAY_MINUTES: Final = 24 * 60
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = _DAY_MINUTES * _MINUTE_MS
_MAX_RANGES: Final = 24
_SHOWN: Final = 40
_RANGE: Final = re.compile(r"([0-9]{2}):([0-9]{2})\s*-\s*([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The quiet ranges of every day (loadBalancerQuietHours).

    Attributes:
        ranges: start and end in minutes of the day, by start; they do not touch, and the last one
            may cross midnight, with an end below its start. Built by `parse` only.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``22:00-06:00,12:00-13:00``; ranges that overlap or touch are joined.

        Raises:
            ValueError: the text is not a list of ranges, has too many, or covers the whole day;
                the message says what is allowed.
        """
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        if len(parts) > _MAX_RANGES:
            raise ValueError(f"{len(parts)} ranges, at most {_MAX_RANGES}")
        return cls(tuple(_joined([_range(part) for part in parts])))

    def __str__(self) -> str:
        return ",".join(_range_text(*each) for each in self.ranges)

    def is_quiet(self, wall_ms: float) -> bool:
        """Return whether the moment, in ms since 1970, is within a range."""
        return self._current(wall_ms) is not None

    def ends_in_s(self, wall_ms: float) -> float:
        """Seconds until the current range ends; 0 outside of quiet hours."""
        current = self._current(wall_ms)
        return 0.0 if current is None else (current[1] * _MINUTE_MS - wall_ms) % _DAY_MS / 1000

    def detail(self, wall_ms: float) -> str:
        """Text for people during quiet hours: ``22:00-06:00 UTC is quiet, for 42 min more``.

        With the key that sets them.
        """
        current = self._current(wall_ms)
        if current is None:
            return "it is not quiet"
        minutes = -(-self.ends_in_s(wall_ms) // 60)
        text = f"{_range_text(*current)} UTC is quiet, for {minutes:.0f} min more"
        return f"{text} (loadBalancerQuietHours)"

    def _current(self, wall_ms: float) -> tuple[int, int] | None:
        at_ms = wall_ms % _DAY_MS
        for start, end in self.ranges:
            length_ms = (end - start) % _DAY_MINUTES * _MINUTE_MS
            if (at_ms - start * _MINUTE_MS) % _DAY_MS < length_ms:
                return start, end
        return None


NO_QUIET_HOURS: Final = QuietHours()


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not a range like 22:00-06:00")
    ends = match.groups()
    start = _minute(*ends[:2], last="23:59")
    end = _minute(*ends[2:], last="24:00")
    if start == end:
        raise ValueError(f"{text!r} starts where it ends: to be quiet for good, disable balancing")
    return start, end


def _minute(hours: str, minutes: str, *, last: str) -> int:
    if int(minutes) > 59 or f"{hours}:{minutes}" > last:
        raise ValueError(f"{hours}:{minutes} is not a time from 00:00 to {last}")
    return int(hours) * 60 + int(minutes)


def _joined(ranges: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Return ranges of the same minutes, as few as possible."""
    is_quiet = [False] * _DAY_MINUTES
    for start, end in ranges:
        length = (end - start) % _DAY_MINUTES or _DAY_MINUTES
        for minute in range(start, start + length):
            is_quiet[minute % _DAY_MINUTES] = True
    if all(is_quiet):
        raise ValueError("no time of the day is left: to be quiet for good, disable balancing")
    # Index -1 is the last minute of the previous day, which is intended.
    starts = [at for at in range(_DAY_MINUTES) if is_quiet[at] and not is_quiet[at - 1]]
    for start in starts:
        length = next(n for n in range(_DAY_MINUTES) if not is_quiet[(start + n) % _DAY_MINUTES])
        yield start, (start + length) % _DAY_MINUTES


def _range_text(start: int, end: int) -> str:
    return f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
