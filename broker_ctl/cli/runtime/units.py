"""Units: base units in JSON, named by the suffix of a field; readable units in tables.

A quantity has the same JSON unit in every command. Tables show bytes and bytes per second with
binary prefixes, ratios as percent, and timestamps as dates. Imbalance, the maximum over the mean
load, is a plain number in both.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from broker_ctl.core.model.load_vector import throughput_text

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


class Unit(NamedTuple):
    """The suffix of a field's name, and how tables format the field."""

    suffix: str
    text: Callable[[float], str]


def percent_text(ratio: float) -> str:
    """``41.9%``."""
    return f"{ratio:.1%}"


def size_text(size_bytes: float) -> str:
    """``12.5 MiB``."""
    return throughput_text(size_bytes).removesuffix("/s")


def time_text(at_ms: float) -> str:
    """``2026-11-22T22:36:27Z``."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        # A report of another program may have any number here.
        return "-"


def duration_text(seconds: float | None) -> str:
    """``0.25 s``, ``40 s``, ``2 min 5 s``, ``1 h 20 min``, ``3 d 4 h``."""
    if seconds is None:
        return "unknown"
    if abs(seconds) < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def rate_text(rate: float) -> str:
    """``12,345 msg/s``."""
    return f"{rate:,.0f} msg/s" if rate >= 100 else f"{rate:.3g} msg/s"


# Longest suffix first: `_bytes_per_s` ends in `_s`, too.
UNITS: Final = (
    Unit("_bytes_per_s", throughput_text),
    Unit("_msg_per_s", rate_text),
    Unit("_moves_per_s", lambda rate: f"{rate * _MINUTE_S:.3g} a minute"),
    Unit("_ratio_per_h", lambda ratio: f"{ratio:.2%} an hour"),
    Unit("_bytes", size_text),
    Unit("_ratio", percent_text),
    Unit("_ms", time_text),
    Unit("_s", duration_text),
)
# Names that consist of a unit only.
_BARE: Final = {"msg_per_s": "messages", "at_ms": "at"}


def unit_of(name: str) -> Unit | None:
    """The unit of a field, by the suffix of its name."""
    return next((unit for unit in UNITS if f"_{name}".endswith(unit.suffix)), None)


def label_of(name: str) -> str:
    """The label of a field in tables: its name without the unit."""
    unit = unit_of(name)
    bare = name if unit is None else name.removesuffix(unit.suffix)
    return _BARE.get(bare, bare).replace("_", " ")


def value_text(name: str, value: Any) -> Any:
    """The value as tables show it; unchanged if the field has no unit."""
    unit = unit_of(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return unit.text(value) if unit is not None and is_number else value
