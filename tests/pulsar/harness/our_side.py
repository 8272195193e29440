"""Our strategies on the same payloads, by the same settings."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Assign, Reason, Transfer, Unload
from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, InFlight
from broker_ctl.core.model.load import BrokerLoad, BundleLoad, UsageWeights, max_usage, size_ratios
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import PlacementRules, SheddingRules
from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from broker_ctl.daemon.wiring.part_rules import placement_rules, shedding_rules
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import with_dynamic
from broker_ctl.store.records.load import BundleData, LocalBrokerData
from tests.pulsar.harness.cases import Json

NOW_S: Final = 100_000.0
_DRAWS_EACH: Final = 16
_DRAWS_MORE: Final = 12

# A broker, a bundle that it gives up, and who receives it where the strategy says so.
Move = tuple[str, str, str | None]
Moves = frozenset[Move]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of our strategies that follow from the settings of a case."""

    shedding: SheddingRules
    placement: PlacementRules
    weights: UsageWeights

    @classmethod
    def of(cls, case: Json) -> "Rules":
        settings, problems = with_dynamic(Settings(), case["settings"])
        assert not problems, problems
        return cls(
            shedding_rules(settings), placement_rules(settings), settings.load_report.weights
        )


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle of a case, read as the daemon reads it."""

    rules: Rules
    reports: dict[str, BrokerLoad]
    averages: dict[str, BundleLoad]
    unloaded_s: dict[str, float]
    choices: Sequence[Json]
    view: ClusterView

    @classmethod
    def of(cls, cycle: Json, rules: Rules) -> "Cycle":
        reports = {
            name: LocalBrokerData.decode(f"/loadbalance/brokers/{name}", _payload(report)).load
            for name, report in cycle["brokers"].items()
        }
        averages = {
            key: BundleData.decode(f"/loadbalance/bundle-data/{key}", _payload(data)).load
            for key, data in cycle["bundles"].items()
        }
        unloaded_s = dict(cycle["unloaded"])
        view = _view(reports, averages, unloaded_s, rules.weights)
        return cls(rules, reports, averages, unloaded_s, cycle["choices"], view)


def cycles(case: Json) -> list[Cycle]:
    """All cycles of a case."""
    rules = Rules.of(case)
    return [Cycle.of(cycle, rules) for cycle in case["cycles"]]


def shed(seen: Sequence[Cycle], strategy: str) -> Iterator[Moves]:
    """The moves of our shedder, cycle by cycle."""
    policy = SHEDDING.entries[strategy]
    memory = policy.recall(None)
    for cycle in seen:
        rules = cycle.rules.shedding
        memory = policy.observe(memory, cycle.view, rules)
        decisions = policy.shed(cycle.view, memory, rules)
        yield frozenset(
            (each.source, str(each.bundle), getattr(each, "destination", None))
            for each in decisions
            if isinstance(each, Unload | Transfer)
        )


def late(cycle: Cycle, moves: Moves) -> dict[str, str | None]:
    """The destinations of planned moves while they are under way, by bundle."""
    placed: dict[str, str | None] = {}
    for source, key, destination in moves:
        assert destination is not None
        bundle = Bundle.parse(key)
        view = replace(cycle.view, moves={bundle: InFlight(bundle, source, destination)})
        policy = PLACEMENT.entries["AvgShedder"]
        choice = policy.select(view, bundle, sorted(cycle.reports), cycle.rules.placement)
        placed[key] = choice.broker_id
    return placed


def promised(view: ClusterView, bundle: Bundle, broker_id: str) -> ClusterView:
    """The view once ``broker_id`` was chosen."""
    return view.after(Assign(bundle, broker_id, Reason.UNOWNED, ""))


def among(
    view: ClusterView,
    strategy: str,
    asked: tuple[Bundle, Sequence[str]],
    rules: PlacementRules,
    expected: frozenset[str],
) -> frozenset[str]:
    """The brokers from which our strategy draws: found by many seeds.

    It draws on for a while after all of ``expected`` were drawn, so that any other broker shows.
    """
    policy = PLACEMENT.entries[strategy]
    bundle, candidates = asked
    drawn: set[str] = set()
    for seed in range(_DRAWS_EACH * len(candidates) + _DRAWS_MORE):
        choice = policy.select(replace(view, draw_seed=seed), bundle, candidates, rules)
        if choice.broker_id is not None:
            drawn.add(choice.broker_id)
        if drawn == expected and seed >= 2 * len(expected) + _DRAWS_MORE:
            break
    return frozenset(drawn)


def _payload(value: Any) -> bytes:
    return json.dumps(value).encode()


def _view(
    reports: dict[str, BrokerLoad],
    averages: dict[str, BundleLoad],
    unloaded_s: dict[str, float],
    weights: UsageWeights,
) -> ClusterView:
    owners = {key: name for name, load in reports.items() for key in load.bundles}
    sizes = size_ratios({name: load.usage for name, load in reports.items()}, weights)
    bundles = {key: Bundle.parse(key) for key in averages}
    return snapshot(
        epoch=1,
        taken_at_s=NOW_S,
        draw_seed=1,
        brokers=[
            BrokerView(name, load, max_usage(load.usage, weights), size_ratio=sizes[name])
            for name, load in reports.items()
        ],
        bundles=[
            BundleView(
                bundles[key],
                owners.get(key),
                load,
                NOW_S - unloaded_s[key] if key in unloaded_s else None,
            )
            for key, load in averages.items()
        ],
        rings=_rings(bundles.values()),
    )


def _rings(bundles: Iterable[Bundle]) -> list[Ring]:
    """Rings that have these bundles; what lies between them is one bundle each."""
    points: dict[Namespace, set[int]] = defaultdict(lambda: {RING_LOW, RING_HIGH})
    for bundle in bundles:
        points[bundle.namespace] |= {bundle.range.low, bundle.range.high}
    return [Ring(namespace, tuple(sorted(each)), 0) for namespace, each in points.items()]
