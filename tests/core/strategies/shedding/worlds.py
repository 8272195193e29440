"""A cluster under steady traffic, minute after minute: shed, plan, move, report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from broker_ctl.core.cluster.decisions import Decision, Skip, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import MIB, Budgets, PlacementRules, SheddingRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.policy import SheddingPolicy
from tests.support.clusters.views import NAMESPACE, NOW_S, broker, cluster, stats

CAPACITY_MIB = 1000.0
CYCLE_S = 60.0
# Budgets that never bind: only the limits of the strategy itself are tested.
ROOMY = Budgets(
    max_moves_per_broker=1000, max_moves=1000, hourly_load_ratio=1000.0, namespace_ratio=1.0
)


@dataclass
class World:
    """Brokers of `CAPACITY_MIB` each; every report is fresh and every move done in its cycle."""

    policy: SheddingPolicy[Any]
    rules: SheddingRules
    owners: dict[Bundle, str]
    lines: Mapping[Bundle, BundleStats]
    brokers: tuple[str, ...]
    now_s: float = NOW_S
    unloaded_s: dict[Bundle, float] = field(default_factory=dict)
    memory: Any = None
    decisions: Sequence[Decision] = ()

    @classmethod
    def of(
        cls,
        policy: SheddingPolicy[Any],
        traffic_mib: Mapping[str, Iterable[float]],
        rules: SheddingRules | None = None,
    ) -> "World":
        """``traffic_mib``: of each bundle of each broker."""
        items = [(owner, mib) for owner, each in traffic_mib.items() for mib in each]
        ring = Ring.even(NAMESPACE, max(16, len(items)))
        pairs = list(zip(ring.bundles, items, strict=False))
        return cls(
            policy,
            rules or SheddingRules(),
            {bundle: owner for bundle, (owner, _) in pairs},
            {bundle: stats(mib) for bundle, (_, mib) in pairs},
            tuple(traffic_mib),
        )

    @property
    def usage(self) -> dict[str, float]:
        """Of each broker, 1.0 is full."""
        return {
            broker_id: sum(
                self.lines[bundle].throughput / MIB / CAPACITY_MIB
                for bundle, owner in self.owners.items()
                if owner == broker_id
            )
            for broker_id in self.brokers
        }

    @property
    def imbalance(self) -> float:
        """The highest usage over the mean."""
        return max(self.usage.values()) * len(self.usage) / sum(self.usage.values())

    def view(self) -> ClusterView:
        usage = self.usage
        reports = [
            broker(
                broker_id,
                usage[broker_id],
                {b: self.lines[b] for b, owner in self.owners.items() if owner == broker_id},
            )
            for broker_id in self.brokers
        ]
        ring = Ring.even(NAMESPACE, max(16, len(self.lines)))
        view = cluster(reports, rings=[ring], unloaded_s=self.unloaded_s)
        return replace(view, taken_at_s=self.now_s)

    def cycle(self, budgets: Budgets = ROOMY) -> list[Transfer]:
        """What moved within one minute."""
        view = self.view()
        memory = self.policy.recall(None) if self.memory is None else self.memory
        self.memory = self.policy.observe(memory, view, self.rules)
        self.decisions = self.policy.shed(view, self.memory, self.rules)
        outcome = plan(
            view,
            self.decisions,
            placement=LeastLongTermMessageRate(),
            placement_rules=PlacementRules(),
            budgets=budgets,
        )
        moves = [move for move in outcome.decisions if isinstance(move, Transfer)]
        for move in moves:
            self.owners[move.bundle] = move.destination
            self.unloaded_s[move.bundle] = self.now_s
        self.now_s += CYCLE_S
        return moves


def moved(decisions: Iterable[Decision]) -> list[Unload | Transfer]:
    return [each for each in decisions if isinstance(each, Unload | Transfer)]


def skips(decisions: Iterable[Decision]) -> list[Skip]:
    return [each for each in decisions if isinstance(each, Skip)]
