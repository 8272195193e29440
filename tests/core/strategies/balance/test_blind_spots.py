"""Where Pulsar's strategies see nothing to do.

Docs: pulsar-shedders, differences-load-manager, pulsar-extensible.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from broker_ctl.core.cluster.decisions import Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.leader_rules import Band, SheddingRules
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from tests.core.strategies.balance.fleets import ALERT, Fleet, rules_of
from tests.support.clusters.views import stats

BAND: Final = Band(high=1.08, low=1.02, least=0.02)
RULES: Final = rules_of(ALERT, band=BAND)
PULSAR: Final = SheddingRules()
OVERLOAD, THRESHOLD, UNIFORM, AVG, TRANSFER = (
    "OverloadShedder",
    "ThresholdShedder",
    "UniformLoadShedder",
    "AvgShedder",
    "TransferShedder",
)


@dataclass(frozen=True)
class Spot:
    """An uneven cluster, and the strategies that do nothing about it."""

    traffic_mib: Mapping[str, Sequence[float]]
    blind: Sequence[str]
    capacity_mib: Mapping[str, float] = field(default_factory=dict)


def brokers(*percents: int, bundle_mib: int = 10) -> dict[str, list[float]]:
    """Each as full as given, with many small bundles."""
    return {
        f"b{number}": [bundle_mib] * (percent * 10 // bundle_mib)
        for number, percent in enumerate(percents)
    }


SPOTS: Final = {
    # One is ten points above all others, and lifts the mean by one.
    "above a high mean": Spot(
        brokers(90, *[80] * 9, bundle_mib=50), (THRESHOLD, UNIFORM, AVG, TRANSFER)
    ),
    # 12 points above the others are within everybody's tolerance.
    "within every band": Spot(
        brokers(62, 50, 50, 50), (OVERLOAD, THRESHOLD, UNIFORM, AVG, TRANSFER)
    ),
    # An idle broker cannot be shed from, and nobody else is above a threshold (#12160, #19310).
    "a new broker": Spot(brokers(50, 50, 50, 50, 50, 0), (OVERLOAD, THRESHOLD)),
    "a new broker among full ones": Spot(
        brokers(*[80] * 10, 0, bundle_mib=20), (OVERLOAD, THRESHOLD)
    ),
    # Three times the mean, and few points (PIP-220).
    "a quiet cluster": Spot(brokers(12, 2, 1, 1), (OVERLOAD, THRESHOLD, AVG)),
    # As many messages on a quarter of the hardware: taken for equals.
    "a small broker": Spot(
        brokers(40, 40, 40, 40), (UNIFORM, AVG), {"b0": 500.0, "b1": 2000.0, "b2": 1000.0}
    ),
    # A fifth of the difference is less than any bundle.
    "large bundles": Spot(
        {"b0": [160] * 5, "b1": [160], "b2": [500], "b3": [500]}, (OVERLOAD, UNIFORM, AVG)
    ),
}


def acts(
    policy: SheddingPolicy[Any], view: ClusterView, minutes: int = 1
) -> list[Unload | Transfer]:
    """The moves of a strategy while the cluster does not change."""
    memory = policy.recall(None)
    given_up: list[Unload | Transfer] = []
    for minute in range(minutes):
        now = replace(view, taken_at_s=view.taken_at_s + 60.0 * minute)
        memory = policy.observe(memory, now, PULSAR)
        decisions = policy.shed(now, memory, PULSAR)
        given_up += [each for each in decisions if isinstance(each, Unload | Transfer)]
    return given_up


def each_blind() -> Iterable[tuple[str, str]]:
    return [(name, strategy) for name, spot in SPOTS.items() for strategy in spot.blind]


@pytest.mark.parametrize(("name", "strategy"), each_blind())
def test_a_strategy_of_pulsar_does_nothing_about_it(name: str, strategy: str) -> None:
    spot = SPOTS[name]
    world = Fleet.of(spot.traffic_mib, spot.capacity_mib)
    assert acts(SHEDDING.find(strategy), world.view(), minutes=30) == []


@pytest.mark.parametrize("name", SPOTS)
def test_balance_does_at_once_and_then_it_is_done(name: str) -> None:
    spot = SPOTS[name]
    world = Fleet.of(spot.traffic_mib, spot.capacity_mib, RULES)
    assert world.cycle()
    for _ in range(5):
        world.cycle()
    assert world.cycle() == []
    mean = sum(world.usage.values()) / len(world.usage)
    assert max(world.usage.values()) <= BAND.trigger(mean) + 1e-9


def test_a_history_hides_a_fresh_overload_from_pulsar_and_not_from_balance() -> None:
    """Half an hour at 20 %, then 90 %: the average of the first minute is 27."""
    world = Fleet.of(brokers(20, 20, 20, 20), rules=RULES)
    threshold = SHEDDING.find(THRESHOLD)
    memory = threshold.recall(None)
    for _ in range(30):
        memory = threshold.observe(memory, world.view(), PULSAR)
        assert world.cycle() == []
    for bundle in [each for each, owner in world.owners.items() if owner == "b0"]:
        world.lines[bundle] = stats(45)
    view = world.view()
    memory = threshold.observe(memory, view, PULSAR)
    decisions = threshold.shed(view, memory, PULSAR)
    assert not any(isinstance(each, Unload) for each in decisions)
    assert {move.source for move in world.look()} == {"b0"}


def test_brokers_of_two_sizes_that_are_equally_full_are_left_in_peace() -> None:
    """Twice the traffic on twice the hardware: equals would share it."""
    world = Fleet.of({"b0": [50] * 20, "b1": [50] * 10, "b2": [50] * 10}, {"b0": 2000.0}, RULES)
    assert world.look() == []
    world.capacity_mib["b0"] = 1000.0
    assert {move.source for move in world.look()} == {"b0"}


def test_all_that_are_too_full_are_relieved_in_one_round() -> None:
    """One broker a cycle would need hours for a hundred brokers."""
    world = Fleet.of(brokers(*[80] * 5, *[20] * 5, bundle_mib=50), rules=RULES)
    assert len({move.source for move in world.cycle()}) == 5
    assert len({each.source for each in acts(SHEDDING.find(UNIFORM), world.view())}) <= 1


def test_a_broker_that_was_relieved_is_not_relieved_again() -> None:
    """90 and 10: Pulsar's averages say 86 and 14 once both have 50 (PIP-217)."""
    world = Fleet.of(brokers(90, 10, bundle_mib=50), rules=RULES)
    assert world.cycle()
    for _ in range(30):
        assert world.cycle() == []
    assert max(world.usage.values()) < 0.55
