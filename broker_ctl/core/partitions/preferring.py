"""When leadership goes back to the preferred replicas (docs: kafka-preferred).

A broker that has just started is not given everything at once: until it is in sync everywhere
again its caches are cold and its disks are busy, and clients would feel it (KAFKA-20708).
"""

from collections.abc import Collection, Mapping
from typing import Final

# How long a broker counts as one that has just started, unless it is in sync everywhere before.
WARM_UP_S: Final = 120.0
# In one turn of the controller; the others have theirs at once after it.
BATCH: Final = 1_000


def is_imbalanced(preferring: int, elsewhere: int, percent: float) -> bool:
    """Whether too many of the partitions that prefer a broker are led elsewhere."""
    return preferring > 0 and 100 * elsewhere > percent * preferring


def imbalanced(
    preferring: Mapping[int, int],
    led_elsewhere: Mapping[int, Collection[object]],
    percent: float,
) -> list[int]:
    """Brokers that are to get leaderships back, ascending."""
    return sorted(
        broker_id
        for broker_id, elsewhere in led_elsewhere.items()
        if is_imbalanced(preferring.get(broker_id, 0), len(elsewhere), percent)
    )


def is_warm(age_s: float | None, lagging: int) -> bool:
    """Whether a broker may be given leaderships.

    Args:
        age_s: since it started; None: it was there before this controller was.
        lagging: of how many of its replicas it is not in the ISR.
    """
    return age_s is None or age_s >= WARM_UP_S or lagging == 0
