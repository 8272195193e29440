"""Numbers and times as the pages write them: each with its unit."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.core.model.load_vector import throughput_text

_NONE: Final = "\N{EN DASH}"
# A tenth of a second is the last figure of longer ones.
_SHORT_S: Final = 0.1
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_THOUSAND: Final = 1000


def percent(ratio: float | None) -> str:
    """A ratio in percent: ``38.9 %``."""
    return _NONE if ratio is None else f"{ratio * 100:.1f} %"


def ratio_text(ratio: float | None) -> str:
    """A ratio as a factor: ``1.06``."""
    return _NONE if ratio is None else f"{ratio:.2f}"


def rate(per_s: float | None) -> str:
    """Messages per second: ``19.5 k/s``."""
    if per_s is None:
        return _NONE
    for unit in ("", " k", " M"):
        if per_s < _THOUSAND:
            return f"{per_s:.1f}{unit}/s" if unit else f"{per_s:.0f}/s"
        per_s /= _THOUSAND
    return f"{per_s:.1f} G/s"


def throughput(bytes_per_s: float | None) -> str:
    """Bytes per second: ``12.5 MiB/s``."""
    return _NONE if bytes_per_s is None else throughput_text(bytes_per_s)


def duration(seconds: float | None) -> str:
    """A duration: ``50 ms``, ``0.8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds is None:
        return _NONE
    if 0 < seconds < _SHORT_S:
        return f"{seconds * _THOUSAND:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def moment(at_ms: int | None) -> str:
    """A time in UTC, for ``<time datetime>``: ``2030-01-31T02:00:00Z``."""
    return "" if not at_ms else _utc(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock_time(at_ms: int | None) -> str:
    """A time of day in UTC: ``02:00:00 UTC``."""
    return _NONE if not at_ms else _utc(at_ms).strftime("%H:%M:%S UTC")


def words(name: Any) -> str:
    """The words of a name of the API: ``too few topics`` of ``too_few_topics``."""
    return str(name).replace("_", " ")


def field_name(name: str) -> str:
    """The words of a field, without the unit that its value shows."""
    for suffix in _UNITS:
        name = name.removesuffix(suffix)
    return words(name)


def field_value(name: str, value: Any) -> str:
    """The value of a field of the API, with the unit that its name ends with."""
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{field_name(key)} {field_value(key, each)}" for key, each in value.items()
        )
    if isinstance(value, list | tuple):
        return "; ".join(field_value(name, each) for each in value)
    if isinstance(value, int | float):
        for suffix, show in _UNITS.items():
            if name.endswith(suffix):
                return show(value)
    return str(value)


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 bundle``, ``2 bundles``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# Endings of the names of fields, the longer ones first.
_UNITS: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "_bytes_per_s": throughput,
        "_per_s": rate,
        "_ratio": percent,
        "_ms": moment,
        "_s": duration,
    }
)


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / _THOUSAND, UTC)
