"""Reads Prometheus' text format, as far as a broker's own gauges and counters go."""

import re
from collections.abc import Mapping
from typing import Final

_SAMPLE: Final = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Value by name and sorted labels.
Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def parse_samples(text: str) -> Samples:
    """All samples; a line that is not one, or whose value is not a number, is left out."""
    found = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        found[match["name"], tuple(sorted(_LABEL.findall(match["labels"] or "")))] = value
    return found


def sum_of(samples: Samples, name: str, **labels: str) -> float | None:
    """The sum of the samples of a name that have these labels; None if there are none."""
    wanted = labels.items()
    values = [
        value for (key, having), value in samples.items() if key == name and wanted <= set(having)
    ]
    return sum(values) if values else None
