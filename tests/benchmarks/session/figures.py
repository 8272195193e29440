"""Quantiles as they are printed."""

import statistics
from collections.abc import Sequence


def quantile(values: Sequence[float], part: float) -> float:
    """The quantile by linear interpolation between the two nearest values."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * part
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def p50_p99(values_s: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    return {
        "p50": round(statistics.median(values_s) * 1000, 1),
        "p99": round(quantile(values_s, 0.99) * 1000, 1),
    }
