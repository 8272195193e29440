"""Common parts of all scenarios: broker ids, mean usage, initial owners."""

from collections.abc import Sequence
from typing import Final

import numpy as np

# Of a mean broker over the whole scenario.
MEAN_USAGE: Final = 0.55


def broker_ids(count: int) -> tuple[str, ...]:
    """``broker-1`` and so on."""
    return tuple(f"broker-{number + 1}" for number in range(count))


def random_owners(
    rng: np.random.Generator, broker_ids: Sequence[str], odds: Sequence[float], bundles: int
) -> tuple[str, ...]:
    """An owner for each bundle.

    Args:
        rng: which.
        broker_ids: who may be one.
        odds: of each broker in relation to each other; those with none get nothing.
        bundles: how many.
    """
    chances = np.array(odds) / sum(odds)
    return tuple(broker_ids[number] for number in rng.choice(len(odds), bundles, p=chances))
