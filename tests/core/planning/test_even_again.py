"""Even again within five cycles by default settings, after what the balancer did not choose."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from broker_ctl.core.cluster.decisions import Transfer
from broker_ctl.core.cluster.view import Settled
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.planning.decide import CycleMemory, CycleRules, decide
from broker_ctl.core.rules.leader_rules import BalanceRules, SheddingRules
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from broker_ctl.core.strategies.placement.strategies import BalancePlacement
from tests.core.strategies.balance.fleets import Fleet

_RULES: Final = CycleRules(
    placement=BalancePlacement(), shedding=BalancePlanner(), shedding_rules=SheddingRules()
)
_CYCLES: Final = 5
_OTHERS: Final = ("b1", "b2")
_ORDS: Final = IsolationPolicy("ords", ("shop/.*",), ("b3",))


@dataclass
class Cluster:
    """Three brokers with eight bundles each, which the balancer has levelled out a minute ago."""

    fleet: Fleet = field(
        default_factory=lambda: Fleet.of(
            {"b1": [70] * 8, "b2": [45, 55] * 4, "b3": [30, 40, 35, 45] * 2}
        )
    )
    memory: CycleMemory = field(default_factory=CycleMemory)
    settled: list[Settled] = field(default_factory=list)
    moves: int = 0

    def __post_init__(self) -> None:
        for _ in range(_CYCLES):
            self.cycle()
        # The balancer has chosen moves, which rest.
        assert self.moves > 0
        assert self.is_even(self.fleet.usage)

    def cycle(self) -> None:
        """Decide, carry all of it out, and report."""
        view = self.fleet.view(settled=self.settled)
        self.memory, plan = decide(self.memory, view, _RULES)
        for made in plan.decisions:
            if not isinstance(made, Transfer):
                continue
            self.moves += 1
            self.fleet.carry(made.bundle, made.destination)
            moved_bytes = made.load_vector.throughput_bytes
            self.settled.append(Settled(made.bundle, self.fleet.now_s, moved_bytes))
        self.fleet.now_s += 60.0

    def evacuate(self, broker_id: str, to: Iterable[str]) -> None:
        """A death, a drain or a policy takes all bundles of a broker to others in turn."""
        receivers = sorted(to)
        mine = sorted(each for each, at in self.fleet.owners.items() if at == broker_id)
        for number, bundle in enumerate(mine):
            self.fleet.owners[bundle] = receivers[number % len(receivers)]

    def is_even(self, usage: dict[str, float]) -> bool:
        mean = sum(usage.values()) / len(usage)
        return max(usage.values()) <= BalanceRules().band.trigger(mean) + 1e-9

    def even_again(self, among: Iterable[str]) -> bool:
        """Whether the usages of some brokers are within the band after five cycles at most."""
        wanted = tuple(among)
        for _ in range(_CYCLES):
            self.cycle()
            usage = self.fleet.usage
            if self.is_even({each: usage[each] for each in wanted}):
                return True
        return False


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_after_a_death_and_a_restart(cluster: Cluster) -> None:
    cluster.evacuate("b3", _OTHERS)
    capacity = cluster.fleet.capacity_mib.pop("b3")
    cluster.cycle()
    cluster.fleet.capacity_mib["b3"] = capacity
    assert cluster.even_again(("b1", "b2", "b3"))


def test_after_a_drain_that_ends(cluster: Cluster) -> None:
    cluster.evacuate("b3", _OTHERS)
    for _ in range(3):
        view = cluster.fleet.view(settled=cluster.settled)
        leaving = replace(view.brokers["b3"], is_draining=True)
        drained = replace(view, brokers={**view.brokers, "b3": leaving})
        cluster.memory, _ = decide(cluster.memory, drained, _RULES)
        cluster.fleet.now_s += 60.0
    assert cluster.even_again(("b1", "b2", "b3"))


def test_after_a_rollout(cluster: Cluster) -> None:
    names = set(cluster.fleet.capacity_mib)
    for broker_id in sorted(names):
        cluster.evacuate(broker_id, names - {broker_id})
        cluster.fleet.now_s += 120.0
    assert not cluster.is_even(cluster.fleet.usage)
    assert cluster.even_again(names)


def test_after_a_policy_is_set(cluster: Cluster) -> None:
    cluster.fleet.constraints = Constraints(isolation=(_ORDS,))
    cluster.evacuate("b3", ("b1",))
    assert not cluster.is_even(cluster.fleet.usage)
    assert cluster.even_again(_OTHERS)
    assert cluster.fleet.usage["b3"] == 0.0


def test_after_a_policy_is_deleted(cluster: Cluster) -> None:
    cluster.fleet.constraints = Constraints(isolation=(_ORDS,))
    cluster.evacuate("b3", _OTHERS)
    assert cluster.even_again(_OTHERS)
    cluster.fleet.constraints = NO_CONSTRAINTS
    assert cluster.even_again(("b1", "b2", "b3"))
