"""Figures of raw values."""

from collections.abc import Sequence


def quantile_ms(values_s: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` of all do not exceed, in ms; 0 where there is none."""
    if not values_s:
        return 0.0
    ordered = sorted(values_s)
    rank = min(int(share * len(ordered)), len(ordered) - 1)
    return round(ordered[rank] * 1000, 3)
