"""Limits of brokers, and times of the day at which only urgent moves are made."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite
from typing import Final, NamedTuple, Self

from broker_ctl.core.model.load import LoadVector, throughput_text
from broker_ctl.core.model.regular_expressions import compiled

# Limits of brokers: what no move may exceed, whatever it would gain (loadBalancerBrokerLimits).
#
# One table for all brokers. Each row has a pattern of broker ids and the limits of those brokers;
# the first row that matches a broker is its row, and a broker without one has no limits.


ALLOWED: Final = (
    "rows of a pattern of broker ids and limits, as 'small-.* usage=70 topics=5000; .* usage=85'; "
    "limits are usage, mbytes_in, mbytes_out, msg_rate, topics, sessions and cpu_cores; empty: none"
)
_MIB: Final = 1024 * 1024
_MAX_ROWS: Final = 64
_SHOWN: Final = 60
_NUMBER: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?")


class _Measure(NamedTuple):
    """How a limit reads a load; ``unit``: what one of it is in the load's unit."""

    of: Callable[[LoadVector], float]
    unit: float
    text: Callable[[float], str]


# In this order they are columns.
MEASURES: Final[dict[str, _Measure]] = {
    # Relative to the broker itself: on another one a bundle has another usage.
    "usage": _Measure(lambda load: load.usage_ratio, 0.01, lambda value: f"{value:.1%} usage"),
    "mbytes_in": _Measure(lambda load: load.bytes_in, _MIB, lambda v: f"{throughput_text(v)} in"),
    "mbytes_out": _Measure(
        lambda load: load.bytes_out, _MIB, lambda value: f"{throughput_text(value)} out"
    ),
    "msg_rate": _Measure(lambda load: load.msg_rate, 1.0, lambda value: f"{value:,.0f} msg/s"),
    "topics": _Measure(lambda load: load.topics, 1.0, lambda value: f"{value:,.0f} topics"),
    "sessions": _Measure(
        lambda load: load.sessions, 1.0, lambda value: f"{value:,.0f} producers and consumers"
    ),
    "cpu_cores": _Measure(lambda load: load.cpu_cores, 1.0, lambda value: f"{value:.2f} cores"),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one broker: the most of each of `MEASURES`, in their order; infinite without a limit."""

    most: tuple[float, ...] = (inf,) * len(MEASURES)

    def excess(self, load: LoadVector) -> str | None:
        """The first limit that a broker with this load exceeds, in words."""
        for measure, most in zip(MEASURES.values(), self.most, strict=True):
            value = measure.of(load)
            # Rounding must not decide.
            if value > most * (1 + 1e-9):
                return f"{measure.text(value)}, its limit is {measure.text(most)}"
        return None


NO_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The table (loadBalancerBrokerLimits).

    Attributes:
        rows: pattern and limits. Built by `parse` only.
    """

    rows: tuple[tuple[str, Limits], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``small-.* usage=70 topics=5000; .* usage=85``.

        Raises:
            ValueError: a row without limits, an unknown one, or a value that is not a number.
            InvalidName: a pattern that does not compile, or one that may take too long.
        """
        rows = [row.strip() for row in text.split(";") if row.strip()]
        if len(rows) > _MAX_ROWS:
            raise ValueError(f"{len(rows)} rows, at most {_MAX_ROWS}")
        return cls(tuple(map(_row, rows)))

    def __str__(self) -> str:
        return "; ".join(" ".join((pattern, *_written(limits))) for pattern, limits in self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def of(self, broker_id: str) -> Limits:
        """The limits of a broker."""
        return _limits_of(self, broker_id) if self.rows else NO_LIMITS


NO_BROKER_LIMITS: Final = BrokerLimits()


@lru_cache(maxsize=8192)
def _limits_of(table: BrokerLimits, broker_id: str) -> Limits:
    found = (limits for pattern, limits in table.rows if compiled(pattern).fullmatch(broker_id))
    return next(found, NO_LIMITS)


def _row(text: str) -> tuple[str, Limits]:
    pattern, *parts = text.split()
    compiled(pattern)
    if not parts:
        raise ValueError(f"{text[:_SHOWN]!r} has no limit")
    most = dict.fromkeys(MEASURES, inf)
    for part in parts:
        name, _, number = part.partition("=")
        if name not in MEASURES:
            raise ValueError(f"{part[:_SHOWN]!r} is not one of {', '.join(MEASURES)} with a number")
        if not _NUMBER.fullmatch(number):
            raise ValueError(f"{part[:_SHOWN]!r}: {number[:_SHOWN]!r} is not a number")
        if isfinite(most[name]):
            raise ValueError(f"{text[:_SHOWN]!r} has {name} twice")
        most[name] = round(float(number) * MEASURES[name].unit, 9)
    return pattern, Limits(tuple(most.values()))


def _written(limits: Limits) -> Iterator[str]:
    for (name, measure), most in zip(MEASURES.items(), limits.most, strict=True):
        if isfinite(most):
            yield f"{name}={most / measure.unit:.10g}"


# Quiet hours: times of the day at which only urgent moves are made.
#
# Times are in UTC: a cluster may span time zones, and with summer time one hour of the year would
# occur twice. A range includes its start and excludes its end, and may cross midnight.


QUIET_HOURS_ALLOWED: Final = "ranges of the day in UTC, as 22:00-06:00,12:00-13:00; empty is none"
_DAY_MINUTES: Final = 24 * 60
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = _DAY_MINUTES * _MINUTE_MS
_MAX_RANGES: Final = 24
_QUIET_HOURS_SHOWN: Final = 40
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
        raise ValueError(f"{text[:_QUIET_HOURS_SHOWN]!r} is not a range like 22:00-06:00")
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
