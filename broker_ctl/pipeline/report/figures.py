"""Numbers, times and names as a reader sees them."""

import math
from datetime import UTC, datetime
from typing import Final

from broker_ctl.pipeline.report.values import Value

TIME: Final = "UTC"
NOTHING: Final = "–"  # noqa: RUF001  what stands in a table for nothing
_SIGNS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LARGE: Final = 10_000
_DIGITS: Final = 4
# What sums of doubles leave of what should be 0.
_NOTHING_AT_ALL: Final = 1e-9


def figure(value: Value, unit: str = "") -> str:
    """A value for people: four digits, thousands as k, M, G; not escaped."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int() | float() if unit == TIME:
            return moment(value)
        case int() if abs(value) < _LARGE:
            return str(value)
        case _:
            return _number(value)


def moment(at_ms: float) -> str:
    """To the minute, or to the second where that says more."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S" if at.second else "%Y-%m-%d %H:%M")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return NOTHING
    if abs(value) >= _LARGE:
        size, sign = next((each for each in _SIGNS if abs(value) >= each[0]), (1.0, ""))
        return f"{value / size:.{_DIGITS}g} {sign}"
    if abs(value) < _NOTHING_AT_ALL:
        return "0"
    text = f"{value:.{_DIGITS}g}"
    return f"{value:.{_DIGITS - 1}f}" if "e" in text and abs(value) < 1 else text
