"""Checks that the JSON output of verbs keeps to one system of units."""

import re
from collections.abc import Iterator
from typing import Any, Final

from broker_ctl.cli.runtime.output import UNITS

# The largest load over the mean has no unit; its name says so.
_PLAIN: Final = "imbalance"
_OTHERS: Final = re.compile(
    r"(^|_)(percent|pct|milliseconds|millis|sec|seconds|min|minute|minutes|hour|hours|kb|kib|mb|mib"
    r"|kbit|mbit|msg_rate|throughput|usage|rate|age)$|_s_ago$|_bytes_s$"
)


def out_of_system(value: Any, names: tuple[str, ...] = ()) -> Iterator[str]:
    """The path of each field whose unit is another one, or is not in its name."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from out_of_system(part, (*names, name))
    elif isinstance(value, list):
        for part in value:
            yield from out_of_system(part, names)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        has_unit = any(_has_unit(name) for name in names)
        if (_OTHERS.search(names[-1] if names else "") and not has_unit) or (
            isinstance(value, float) and not has_unit
        ):
            yield ".".join(names)


def _has_unit(name: str) -> bool:
    return _PLAIN in name or any(f"_{name}".endswith(unit.suffix) for unit in UNITS)
