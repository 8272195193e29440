"""Our answers held against Pulsar's, one by one.

An answer is what one shedder gives up in one cycle, or what one placement strategy chooses among
for one bundle. Where they differ, the fewest departures are looked for with which the calculation
of `shedders` and `placements` gives Pulsar's answer, and without any of them ours. No such set: the
difference is unexplained.

Chance: of equals, shedders of Pulsar take the first in a hash map; Pulsar's side returns that
order, and the departure TIE follows it. Placement draws at random: what is compared is the set that
it draws from, which the classes keep. AvgShedder does not keep its set: the broker that it drew
must be in the set of ours, which has to be all candidates. A round robin begins anywhere: within a
turn no broker may come twice.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, Final

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from tests.pulsar.harness import our_side
from tests.pulsar.harness.cases import Json
from tests.pulsar.harness.departures import Departure
from tests.pulsar.harness.our_side import Cycle, Moves
from tests.pulsar.harness.placements import PLACERS, Asked, Turns
from tests.pulsar.harness.shedders import SHEDDERS, On, Seen

NONE: Final[On] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of both sides, compared.

    Attributes:
        strategy: whose; placement strategies have ``place `` before their name.
        cycle: of the case.
        ours, pulsars: the answers.
        by: the departures that explain the difference; empty where there is none, None where it is
            unexplained.
        acts: whether either of them does something.
    """

    case: str
    strategy: str
    cycle: int
    ours: Any
    pulsars: Any
    by: On | None
    acts: bool = True


@dataclass(slots=True)
class Figures:
    """Counts over many verdicts."""

    cases: set[str] = field(default_factory=set)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    departures: dict[str, Counter[Departure]] = field(default_factory=dict)
    unexplained: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.cases.add(verdict.case)
        counts = self.counts.setdefault(verdict.strategy, Counter())
        counts["decisions"] += 1
        counts["acting"] += verdict.acts
        counts[_kind(verdict.by)] += 1
        if verdict.by is None:
            self.unexplained.append(verdict)
        else:
            self.departures.setdefault(verdict.strategy, Counter()).update(verdict.by)

    def summary(self) -> dict[str, Any]:
        """The counts as plain JSON values."""
        return {
            "cases": len(self.cases),
            **sum(self.counts.values(), Counter()),
            "unexplained": len(self.unexplained),
            "explained_by": _by_count(sum(self.departures.values(), Counter())),
            "strategies": {
                name: {**counts, "explained_by": _by_count(self.departures.get(name, Counter()))}
                for name, counts in sorted(self.counts.items())
            },
        }


def compared(case: Json, answer: Json) -> Iterator[Verdict]:
    """All verdicts of one case; ``answer`` is that of Pulsar's side."""
    cycles = our_side.cycles(case)
    for strategy in SHEDDERS:
        yield from _shed(case["name"], strategy, cycles, answer["cycles"])
    for strategy in PLACERS:
        yield from _placed(case["name"], strategy, cycles, answer["cycles"])
    yield from _drawn(case["name"], cycles, answer["cycles"])
    yield from _in_turn(case["name"], cycles, answer["cycles"])
    yield from _late(case["name"], cycles[-1], answer)


def _shed(
    name: str, strategy: str, cycles: Sequence[Cycle], decided: Sequence[Json]
) -> Iterator[Verdict]:
    model, possible = SHEDDERS[strategy]

    @cache
    def replay(on: On) -> list[Moves]:
        return [*model(Seen(cycle, each, on) for cycle, each in zip(cycles, decided, strict=True))]

    for number, ours in enumerate(our_side.shed(cycles, strategy)):
        pulsars = _moves(decided[number]["shed"][strategy])
        by = _explained(ours, pulsars, possible, replay, number)
        yield Verdict(name, strategy, number, ours, pulsars, by, bool(ours or pulsars))


def _placed(
    name: str, strategy: str, cycles: Sequence[Cycle], decided: Sequence[Json]
) -> Iterator[Verdict]:
    """Each choice is made after Pulsar's own choices before it, which are drawn by lot."""
    model, possible = PLACERS[strategy]
    asked = [*_asked(strategy, cycles, decided)]

    @cache
    def replay(on: On) -> list[frozenset[str]]:
        one = model()
        return [one.among(each.under(on)) for each in asked]

    for place, each in enumerate(asked):
        pulsars = frozenset(each.answer["among"])
        question = (each.bundle, sorted(each.candidates))
        rules = each.cycle.rules.placement
        ours = our_side.among(each.view, strategy, question, rules, pulsars)
        by = _explained(ours, pulsars, possible, replay, place)
        yield Verdict(name, f"place {strategy}", each.number, ours, pulsars, by)


@dataclass(frozen=True, slots=True)
class _Question:
    number: int
    cycle: Cycle
    decided: Json
    answer: Json
    bundle: Bundle
    view: ClusterView
    rates: dict[str, float]

    @property
    def candidates(self) -> Sequence[str]:
        order: Sequence[str] = self.answer["order"]
        return order

    def under(self, on: On) -> Asked:
        return Asked(Seen(self.cycle, self.decided, on), self.view, self.candidates, self.rates)


def _asked(strategy: str, cycles: Sequence[Cycle], decided: Sequence[Json]) -> Iterator[_Question]:
    for number, (cycle, each) in enumerate(zip(cycles, decided, strict=True)):
        view = cycle.view
        rates = {
            broker: sum(cycle.averages[key].long.msg_rate for key in report.bundles)
            for broker, report in cycle.reports.items()
        }
        for choice, answer in zip(cycle.choices, each["placed"][strategy], strict=True):
            bundle, chosen = Bundle.parse(choice["bundle"]), answer["chosen"]
            yield _Question(number, cycle, each, answer, bundle, view, dict(rates))
            view = our_side.promised(view, bundle, chosen)
            rates[chosen] += cycle.averages[choice["bundle"]].long.msg_rate


def _drawn(name: str, cycles: Sequence[Cycle], decided: Sequence[Json]) -> Iterator[Verdict]:
    """AvgShedder without a plan."""
    for each in _asked("AvgShedder", cycles, decided):
        all_of_them = frozenset(each.candidates)
        question = (each.bundle, sorted(each.candidates))
        rules = each.cycle.rules.placement
        ours = our_side.among(each.view, "AvgShedder", question, rules, all_of_them)
        chosen = each.answer["chosen"]
        by = NONE if chosen in ours == all_of_them else None
        yield Verdict(name, "place AvgShedder", each.number, ours, chosen, by)


def _in_turn(name: str, cycles: Sequence[Cycle], decided: Sequence[Json]) -> Iterator[Verdict]:
    """RoundRobinBrokerSelector: a broker that was chosen in this turn is not chosen again."""
    strategy, turns = "RoundRobinBrokerSelector", Turns()
    policy = PLACEMENT.entries[strategy]
    for number, (cycle, each) in enumerate(zip(cycles, decided, strict=True)):
        view = cycle.view
        ours: tuple[str, ...] = ()
        pulsars: tuple[str, ...] = ()
        for choice, answer in zip(cycle.choices, each["placed"][strategy], strict=True):
            bundle, order = Bundle.parse(choice["bundle"]), answer["order"]
            chosen = policy.select(view, bundle, sorted(order), cycle.rules.placement).broker_id
            assert chosen is not None
            view = our_side.promised(view, bundle, chosen)
            ours, pulsars = (*ours, chosen), (*pulsars, answer["chosen"])
            is_as_modelled = turns.next(order) == answer["chosen"]
            by: On | None = None
            if _is_turn(ours, order) and is_as_modelled:
                by = NONE if _is_turn(pulsars, order) else frozenset({Departure.STALE_TURN})
            yield Verdict(name, f"place {strategy}", number, ours, pulsars, by)


def _is_turn(chosen: Sequence[str], candidates: Sequence[str]) -> bool:
    """Whether the last one is a candidate that was not chosen earlier in this turn."""
    *before, last = chosen[-len(candidates) :]
    return last in candidates and last not in before


def _late(name: str, cycle: Cycle, answer: Json) -> Iterator[Verdict]:
    """The destinations of AvgShedder's last plans after one more measurement of all bundles."""
    last = len(answer["cycles"]) - 1
    moves = _moves(answer["cycles"][last]["shed"]["AvgShedder"])
    planned = our_side.late(cycle, moves)
    for source, key, _ in moves:
        ours, pulsars = planned[key], answer["late"][key]
        load, now = cycle.averages[key], cycle.reports[source].bundles[key]
        is_as_before = all(
            (each.msg_rate, each.throughput) == (now.msg_rate, now.throughput)
            for each in (load.short, load.long)
        )
        by: On | None = NONE if ours == pulsars else None
        if by is None and not is_as_before and pulsars in cycle.reports:
            by = frozenset({Departure.LOST_PLAN})
        yield Verdict(name, "place AvgShedder's plan", last, ours, pulsars, by)


def _explained(
    ours: Hashable,
    pulsars: Hashable,
    possible: On,
    replay: Callable[[On], Sequence[Hashable]],
    place: int,
) -> On | None:
    """The fewest departures with which the answer at ``place`` is Pulsar's; without, it is ours."""
    if ours == pulsars:
        return NONE
    if replay(NONE)[place] != ours:
        return None
    ranked = sorted(possible, key=[*Departure].index)
    for size in range(1, len(ranked) + 1):
        for some in combinations(ranked, size):
            if replay(frozenset(some))[place] == pulsars:
                return frozenset(some)
    return None


def _moves(rows: Sequence[Sequence[str]]) -> Moves:
    return frozenset((row[0], row[1], row[2] if len(row) > 2 else None) for row in rows)


def _kind(by: On | None) -> str:
    if by is None:
        return "unexplained"
    if not by:
        return "equal"
    return "equal_but_for_order" if all(each.is_chance for each in by) else "explained"


def _by_count(counts: Mapping[Departure, int]) -> dict[str, int]:
    return {each.value: count for each, count in sorted(counts.items(), key=lambda e: -e[1])}
