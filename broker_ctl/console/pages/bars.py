"""Brokers as bars, with the band of the planner drawn in."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Final

from broker_ctl.console.pages.frame import Row

_LENGTH: Final = 1000.0
_MARGIN: Final = 1.12


@dataclass(frozen=True, slots=True)
class Band:
    """The planner's band, as multiples of the mean usage; see ``loadBalancerPlanner...``."""

    low: float = 1.04
    high: float = 1.08


DEFAULT_BAND: Final = Band()


@dataclass(frozen=True, slots=True)
class Bar:
    """One broker; lengths are thousandths of the picture's width.

    Attributes:
        of_mean: usage as a multiple of the mean.
        verdict: a word for its place: ``above``, ``within`` or ``below`` the band.
    """

    row: Row
    length: float
    of_mean: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Bars:
    """All brokers by usage, the fullest first; ``mean``, ``low``, ``high`` are positions."""

    bars: tuple[Bar, ...]
    mean: float
    low: float
    high: float
    mean_ratio: float


def bars_of(brokers: Iterable[Row], band: Band) -> Bars:
    """The bars of the leader's brokers."""
    rows = sorted(brokers, key=lambda row: (-row["usage_ratio"], row["broker"]))
    mean = fsum(row["usage_ratio"] for row in rows) / len(rows) if rows else 0.0
    longest = max([mean * band.high, *(row["usage_ratio"] for row in rows)], default=0.0)
    scale = _LENGTH / (longest * _MARGIN) if longest > 0 else 0.0

    def bar(row: Row) -> Bar:
        of_mean = row["usage_ratio"] / mean if mean > 0 else 0.0
        verdict = "within"
        if of_mean > band.high:
            verdict = "above"
        elif of_mean < band.low:
            verdict = "below"
        return Bar(row, round(row["usage_ratio"] * scale, 1), of_mean, verdict)

    return Bars(
        tuple(map(bar, rows)),
        round(mean * scale, 1),
        round(mean * band.low * scale, 1),
        round(mean * band.high * scale, 1),
        mean,
    )
