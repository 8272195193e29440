"""Limits of brokers: what no move may exceed, whatever it would gain (loadBalancerBrokerLimits).

One table for all brokers. Each row has a pattern of broker ids and the limits of those brokers; the
first row that matches a broker is its row, and a broker without one has no limits.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite
from typing import Final, NamedTuple, Self

from broker_ctl.core.model.load_vector import LoadVector, throughput_text
from broker_ctl.core.model.safe_regex import compiled

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
