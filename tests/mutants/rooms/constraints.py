"""Breaks of what operators demand of placement: racks, limits of brokers, spread of topics.

They endanger no invariant but "constraints": no assignment and no plan crosses what an operator has
set, and what crosses it already is shown.
"""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_RACKS: Final = "core/partitions/placing.py"
_SPREADING: Final = "core/partitions/placing.py"
_REPLANNING: Final = "core/partitions/reassigning.py"

_RELIEF: Final = "core/strategies/balance/limits.py"
_PROBLEM: Final = "core/strategies/balance/problem.py"
_COUNTS: Final = "core/strategies/balance/problem.py"
_FILTERS: Final = "core/strategies/placement/filters.py"
_NAMES: Final = "core/model/names.py"
_POLICY: Final = "core/strategies/balance/policy.py"

_ORDER: Final = "core/planning/order.py"
_ON_THE_WAY: Final = "core/planning/order.py"

_PLANS: Final = unit("core/planning")
_PARTITIONS: Final = unit("core/partitions")
_PLANNED: Final = unit("core/strategies/balance")
_PLACED: Final = unit("core/strategies/placement")
_HASHED: Final = unit("core/model")

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
    # Limits of brokers.
    plant(
        "limits-that-nobody-gives-for",
        "constraints",
        _RELIEF,
        "    for source in beyond.tolist():\n",
        "    for source in ():\n",
        _PLANNED,
    ),
    plant(
        "limits-relieved-into-full-brokers",
        "constraints",
        _RELIEF,
        "self.allocation.receiver(bundle, source, self.trigger)",
        "self.allocation.receiver(bundle, source, np.inf)",
        _PLANNED,
    ),
    plant(
        "limits-relieved-by-the-largest",
        "constraints",
        _RELIEF,
        "tried = [*order[enough:].tolist(), *order[:enough][::-1].tolist()]",
        "tried = order[::-1].tolist()",
        _PLANNED,
    ),
    plant(
        "limits-of-receivers-ignored",
        "constraints",
        _PROBLEM,
        "        able = within(self.held + problem.takes[bundle], problem.most)\n",
        "        able = np.ones(len(self.held), bool)\n",
        _PLANNED,
    ),
    plant(
        "limits-that-are-stuck-unsaid",
        "constraints",
        _RELIEF,
        "        if source not in self.found.stuck:\n            self.found.stuck.append(source)\n",
        "",
        _PLANNED,
    ),
    plant(
        "limits-and-balance-in-one-plan",
        "constraints",
        _POLICY,
        "    if any(isinstance(each, Transfer) for each in limited):\n        return limited\n",
        "",
        _PLANNED,
    ),
    # Partitions of a topic.
    plant(
        "topic-caps-ignored-by-plans",
        "constraints",
        _PROBLEM,
        "return able if spread is None else able & spread",
        "return able",
        _PLANNED,
    ),
    plant(
        "topic-caps-ignored-by-the-second-leg",
        "constraints",
        _COUNTS,
        "        if not self.spread.cap:\n            return True\n",
        "        if self.spread.cap >= 0:\n            return True\n",
        _PLANNED,
    ),
    plant(
        "topic-counts-that-no-move-changes",
        "constraints",
        _COUNTS,
        "changed[destination] = changed.get(destination, 0) + count",
        "changed[destination] = changed.get(destination, 0)",
        _PLANNED,
    ),
    plant(
        "topics-spread-by-load-alone",
        "constraints",
        _PROBLEM,
        "with_it[excess > excess[np.isfinite(with_it)].min()] = np.inf",
        "pass",
        _PLANNED,
    ),
    plant(
        "topic-caps-that-nobody-gives-for",
        "constraints",
        _COUNTS,
        "np.flatnonzero(self.sums > self.spread.cap)",
        "np.flatnonzero(self.sums > self.sums)",
        _PLANNED,
    ),
    plant(
        "topic-caps-ignored-by-placement",
        "constraints",
        _FILTERS,
        "            if have > rules.topic_cap:\n",
        "            if have > rules.topic_cap + 1:\n",
        _PLACED,
    ),
    plant(
        "topics-placed-by-load-alone",
        "constraints",
        _FILTERS,
        "        if excess[broker_id] == least:\n",
        "        if excess[broker_id] >= least:\n",
        _PLACED,
    ),
    plant(
        "partitions-at-the-end-of-a-ring",
        "constraints",
        _NAMES,
        "end = span.high + (span.high == RING_HIGH)",
        "end = span.high",
        _HASHED,
    ),
    plant(
        "partitions-that-stay-with-the-giver",
        "constraints",
        _NAMES,
        "            changed.subtract(self.of(bundle))\n",
        "            changed.update(())\n",
        _HASHED,
    ),
    # On the way from before a plan to after it.
    plant(
        "moves-that-wait-for-no-room-under-limits",
        "constraints",
        _ORDER,
        "self.ceiling + _NOTHING and self._keeps_limits(move)",
        "self.ceiling + _NOTHING",
        _PLANS,
    ),
    plant(
        "circles-that-break-limits",
        "constraints",
        _ORDER,
        "[each for each in waiting if self._keeps_limits(each)]",
        "list(waiting)",
        _PLANS,
    ),
    plant(
        "bundles-that-are-leaving-have-left",
        "constraints",
        _ON_THE_WAY,
        "                room.add(move.source, self.amounts(move.bundle))\n",
        "                self.amounts(move.bundle)\n",
        _PLANS,
    ),
)
