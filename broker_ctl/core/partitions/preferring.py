"""When leadership returns to preferred replicas (docs: kafka-preferred).

A broker that has just started does not get all leaderships at once: until it is in sync everywhere
its caches are cold and its disks are busy, which clients would notice (KAFKA-20708).
"""

from collections.abc import Collection, Mapping
from typing import Final

# Time for which a broker counts as just started, unless it is in sync everywhere before.
WARM_UP_S: Final = 120.0
# Maximum number of elections in one event of the controller; the next event follows at once.
BATCH: Final = 1_000


def is_imbalanced(preferring: int, elsewhere: int, percent: float) -> bool:
    """Return whether too many of the partitions that prefer a broker are led elsewhere."""
    return preferring > 0 and 100 * elsewhere > percent * preferring


def imbalanced(
    preferring: Mapping[int, int],
    led_elsewhere: Mapping[int, Collection[object]],
    percent: float,
) -> list[int]:
    """Return the ids of brokers that should get leaderships back, ascending."""
    return sorted(
        broker_id
        for broker_id, elsewhere in led_elsewhere.items()
        if is_imbalanced(preferring.get(broker_id, 0), len(elsewhere), percent)
    )


def is_warm(age_s: float | None, lagging: int) -> bool:
    """Return whether a broker may get leaderships.

    Args:
        age_s: seconds since it registered; None: before this controller's term.
        lagging: number of its replicas that are not in the ISR.
    """
    return age_s is None or age_s >= WARM_UP_S or lagging == 0
