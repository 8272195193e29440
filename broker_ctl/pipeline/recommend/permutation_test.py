"""The p-value of paired differences: a sign-flip permutation test (Fisher's).

If a candidate is as good as the baseline, each difference is as likely to be positive as negative.
So each choice of signs is as likely as the observed one; the p-value is the share of choices with a
mean as low. The test makes no other assumption, and few pairs cannot prove much: with n pairs the
p-value is at least 2 to the power of -n. A bootstrap interval alone lies below 0 whenever all of
two pairs do.
"""

from collections.abc import Iterator, Sequence
from math import ceil, log2
from typing import Final

import numpy as np
from numpy.typing import NDArray

# Up to this number of pairs every choice of signs is counted; beyond it as many are drawn.
_MOST_ENUMERATED: Final = 18
_AT_ONCE: Final = 1 << 14
_SEED: Final = 20_260_101
# Sums of the same numbers in another order differ by less, relative to the sum of their sizes.
_ROUNDING: Final = 1e-12


def p_value(differences: Sequence[float]) -> float:
    """Part of all choices of signs with which the mean is as low; up to 18 pairs exact.

    With more pairs 262,144 choices are drawn, always the same; what was seen counts among them.
    1.0 where there are no pairs.

    Args:
        differences: candidate minus baseline of each pair, finite; below 0 is better.
    """
    sizes = np.abs(np.asarray(differences, float))
    limit = float(np.sum(differences)) + _ROUNDING * float(sizes.sum())
    low = sum(
        int(np.count_nonzero(flipped @ sizes <= limit)) for flipped in _choices(len(differences))
    )
    count = 1 << min(len(differences), _MOST_ENUMERATED)
    if len(differences) <= _MOST_ENUMERATED:
        return low / count
    return (low + 1) / (count + 1)


def min_pairs(limit: float) -> int:
    """With fewer pairs no `p_value` is at most so small."""
    return ceil(log2(1 / limit))


def _choices(pairs: int) -> Iterator[NDArray[np.float64]]:
    """Signs, a few thousand choices at a time, shape (choices, pairs)."""
    total = 1 << min(pairs, _MOST_ENUMERATED)
    rng = np.random.default_rng(_SEED)
    for start in range(0, total, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, total))
        if pairs <= _MOST_ENUMERATED:
            bits = (numbers[:, None] >> np.arange(pairs)) & 1
        else:
            bits = rng.integers(0, 2, (len(numbers), pairs))
        yield np.where(bits, 1.0, -1.0)
