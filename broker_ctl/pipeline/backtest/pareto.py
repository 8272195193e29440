"""The Pareto front: the points that no other dominates (docs: load-history-sources)."""

import numpy as np
from numpy.typing import NDArray


def find_pareto_front(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points no other one beats: is as good in everything and better in something.

    Equal points do not beat each other.

    Args:
        points: shape (points, measures); less is better in each.

    Raises:
        ValueError: a value is not a number.
    """
    if np.isnan(points).any():
        raise ValueError("a measure is not a number")
    is_on = np.ones(len(points), dtype=np.bool_)
    for place, point in enumerate(points):
        is_as_good = (points <= point).all(axis=1)
        is_better = (points < point).any(axis=1)
        is_on[place] = not (is_as_good & is_better).any()
    return is_on
