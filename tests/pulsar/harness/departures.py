"""Where our strategies differ from those of Pulsar on purpose: a closed list.

Sections are those of the reference on Pulsar's load management. The last few are not defects: they
are what Pulsar leaves to chance.
"""

from enum import StrEnum
from typing import Final


class Departure(StrEnum):
    """What a class of Pulsar does and ours does not. The values are the keys of the figures."""

    NO_GAIN = "no_gain"
    HEARTBEAT_COUNTS = "heartbeat_counts"
    SOLE_BUNDLE = "sole_bundle"
    LAGGING_AVERAGE = "lagging_average"
    SECOND_UPDATE = "second_update"
    NO_MINIMUM = "no_minimum"
    INT_OVERFLOW = "int_overflow"
    PLUS_1000 = "plus_1000"
    IDLE_BUNDLES = "idle_bundles"
    HITS_OF_THE_GONE = "hits_of_the_gone"
    SHARED_PLAN = "shared_plan"
    LOST_PLAN = "lost_plan"
    AVERAGE_PER_CHOICE = "average_per_choice"
    PROMISED_USAGE = "promised_usage"
    STALE_TURN = "stale_turn"
    ROUNDING = "rounding"
    TIE = "tie"

    @property
    def section(self) -> str:
        """The section of the reference that describes it; ``found here`` where none does."""
        return _DESCRIPTIONS[self][0]

    @property
    def sentence(self) -> str:
        """What Pulsar does instead."""
        return _DESCRIPTIONS[self][1]

    @property
    def is_chance(self) -> bool:
        """Whether it is not a defect but chance: which of equals comes first."""
        return self is Departure.TIE


_DESCRIPTIONS = {
    Departure.NO_GAIN: (
        "11, rows 1 and 2",
        "unloads bundles though their receiver would be as full as their broker is now",
    ),
    Departure.HEARTBEAT_COUNTS: (
        "found here; 5, common part",
        (
            "unloads the only bundle of a broker that could go: its heartbeat bundle, which never "
            "moves, counts as another one"
        ),
    ),
    Departure.SOLE_BUNDLE: (
        "5.4",
        "AvgShedder unloads the only bundle of a broker: its other bundles are never counted",
    ),
    Departure.LAGGING_AVERAGE: (
        "5.2 (lag); 11, row 3",
        (
            "ThresholdShedder goes on unloading a broker that was relieved long ago, as its moving "
            "average lags by ten cycles and more"
        ),
    ),
    Departure.SECOND_UPDATE: (
        "5.2, lowerBoundarySheddingEnabled",
        "ThresholdShedder folds the same sample once more when it looks at the lower boundary",
    ),
    Departure.NO_MINIMUM: (
        "5.3, [BUG]",
        "UniformLoadShedder takes 2^31 - 1 bytes/s for the lowest where all have more",
    ),
    Departure.INT_OVERFLOW: (
        "found here; 5.3",
        "UniformLoadShedder counts what should go in 32 bits: from 2 GiB/s on nothing goes",
    ),
    Departure.PLUS_1000: (
        "5.3 (#21905)",
        (
            "UniformLoadShedder takes bundles that are up to 1,000 more than what should go, one "
            "after another: of few messages all go. 4.0.8 still does"
        ),
    ),
    Departure.IDLE_BUNDLES: (
        "found here; 11, row 2",
        "UniformLoadShedder unloads bundles without any traffic, to even out traffic",
    ),
    Departure.HITS_OF_THE_GONE: (
        "found here; 5.4",
        "AvgShedder keeps the hits of a broker that has left, and goes on counting when it is back",
    ),
    Departure.SHARED_PLAN: (
        "5.4, [BUG] (#26246)",
        "AvgShedder keeps its plans by the averages of a bundle: bundles with equal ones share one",
    ),
    Departure.LOST_PLAN: (
        "5.4, [BUG] (#26246)",
        (
            "AvgShedder does not find its plan again once the bundle has been measured once more: "
            "the lot decides"
        ),
    ),
    Departure.AVERAGE_PER_CHOICE: (
        "6.2",
        (
            "LeastResourceUsageWithWeight smooths usage by the number of choices, not by time: the "
            "first after a pause are made on what was long ago"
        ),
    ),
    Departure.PROMISED_USAGE: (
        "11, row 14",
        "the usage that a broker will have once it carries what was promised to it is not counted",
    ),
    Departure.STALE_TURN: (
        "found here; 6.2",
        (
            "RoundRobinBrokerSelector keeps an old order until it reaches a broker that has left "
            "the candidates, and goes on in the middle of a new one: some come twice in a turn"
        ),
    ),
    Departure.ROUNDING: (
        "3.1 (percentUsage)",
        "usage in 32-bit fractions and unrounded sums decide at the very threshold",
    ),
    Departure.TIE: ("-", "of equals, the order of a hash map says which comes first"),
}

# Only before 5.0: since then plans are kept by the name of the bundle, and nothing is taken for the
# thousand messages.
_MENDED_IN_5: Final = frozenset({Departure.SHARED_PLAN, Departure.LOST_PLAN, Departure.PLUS_1000})


def mended_in(release: str) -> frozenset[Departure]:
    """What a release of Pulsar does not do any more; without one, 4.0.8 is meant."""
    return _MENDED_IN_5 if release.startswith("5.") else frozenset()
