"""Breaks of what operators demand of placement: racks, limits of brokers, spread of topics.

They endanger no invariant but "constraints": no assignment and no plan crosses what an operator has
set, and what crosses it already is shown.
"""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_RACKS: Final = "core/partitions/racks.py"
_SPREADING: Final = "core/partitions/spreading.py"
_REPLANNING: Final = "core/partitions/replanning.py"

_PARTITIONS: Final = unit("core/partitions")

CONSTRAINTS: Final[tuple[Mutant, ...]] = (
    # Racks.
    plant(
        "racks-of-some-brokers-count",
        "I9 constraints",
        _RACKS,
        "return racks if all(racks.values()) else NO_RACKS",
        "return racks",
        _PARTITIONS,
    ),
    plant(
        "racks-judged-by-what-leaves",
        "I9 constraints",
        _RACKS,
        "is_violated(assignment.target, self.racks)",
        "is_violated(assignment.replicas, self.racks)",
        _PARTITIONS,
    ),
    plant(
        "racks-that-appear-judge-nothing",
        "I9 constraints",
        _RACKS,
        "            concerned: Iterable[TopicPartition] = assignments\n",
        "            concerned: Iterable[TopicPartition] = ()\n",
        _PARTITIONS,
    ),
    plant(
        "racks-of-moved-brokers-judge-nothing",
        "I9 constraints",
        _RACKS,
        "if before.get(broker) != self.racks.get(broker)",
        "if broker not in self.racks",
        _PARTITIONS,
    ),
    plant(
        "racks-of-new-partitions-ignored",
        "I9 constraints",
        _SPREADING,
        "if in_rack[rack] == fewest]",
        "if in_rack[rack] >= fewest]",
        _PARTITIONS,
    ),
    plant(
        "racks-shared-in-plans",
        "I9 constraints",
        _REPLANNING,
        "    while racks_used(kept, racks) + factor - len(kept) < racks_wanted(factor, racks):\n",
        "    while False:\n",
        _PARTITIONS,
    ),
    plant(
        "racks-filled-by-load-alone",
        "I9 constraints",
        _REPLANNING,
        "(in_rack[racks[broker]], counts[broker], broker))",
        "(counts[broker], broker))",
        _PARTITIONS,
    ),
    plant(
        "racks-lost-by-levelling",
        "I9 constraints",
        _REPLANNING,
        "    if racks_used(moved, racks) < racks_wanted(len(moved), racks):\n"
        "        return False\n",
        "",
        _PARTITIONS,
    ),
)
