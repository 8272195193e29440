"""Brokers that report their resources, for tests of the strategy as a whole."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Unpack

from broker_ctl.core.cluster.decisions import Decision, Transfer
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import (
    BundleStats,
    ResourceUsage,
    SystemUsage,
    UsageWeights,
    max_usage,
    size_ratios,
)
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.rules.leader_rules import (
    MIB,
    BalanceRules,
    Band,
    SheddingRules,
    SlowRules,
    Smoothing,
)
from broker_ctl.core.rules.limits import QuietHours
from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from tests.support.clusters.views import NAMESPACE, NOW_S, Facts, broker, cluster, stats

# Of a broker in and out, unless given: 1 MiB/s is one part in a thousand.
CAPACITY_MIB: Final = 1000.0
POLICY: Final = BalancePlanner()
NEVER: Final = 1e9
# Acts above 1.2 mean usages, down to 1.1; without urgent cases and without other limits.
CALM: Final = BalanceRules(
    band=Band(high=1.2, low=1.1, least=0.02),
    severe_ratio=NEVER,
    overloaded_ratio=NEVER,
    churn_ratio=NEVER,
    smoothing=Smoothing(recent_s=60.0, steady_s=1200.0, change_ratio=0.5),
    rest_s=1800.0,
    return_s=3600.0,
    quiet=QuietHours(),
    slow=SlowRules(is_enabled=False),
    headroom_ratio=NEVER,
    weights=UsageWeights(),
)
ALERT: Final = replace(CALM, severe_ratio=1.5, overloaded_ratio=0.85)


def rules_of(balance: BalanceRules, **changes: Any) -> SheddingRules:
    """A strategy's rules around the planner's own."""
    return SheddingRules(report_ttl_s=1800.0, balance=replace(balance, **changes))


def reporting(
    broker_id: str,
    lines: Mapping[Bundle, BundleStats],
    capacity_mib: float = CAPACITY_MIB,
    cpu_ratio: float = 0.0,
) -> BrokerView:
    """A broker of eight cores whose network is as full as its bundles make it."""
    total = BundleStats.total_of(lines.values())
    usage = SystemUsage(
        cpu=ResourceUsage(800 * cpu_ratio, 800),
        bandwidth_in=ResourceUsage(total.msg_throughput_in / MIB, capacity_mib / 2),
        bandwidth_out=ResourceUsage(total.msg_throughput_out / MIB, capacity_mib / 2),
    )
    seen = broker(broker_id, max_usage(usage), lines)
    return replace(seen, load=replace(seen.load, usage=usage))


def sized(brokers: Iterable[BrokerView]) -> list[BrokerView]:
    """The brokers as the leader sees them: each with its size."""
    seen = list(brokers)
    sizes = size_ratios({each.broker_id: each.load.usage for each in seen})
    return [replace(each, size_ratio=sizes[each.broker_id]) for each in seen]


def fleet(
    traffic_mib: Mapping[str, Sequence[float]],
    capacity_mib: Mapping[str, float] | None = None,
    **facts: Unpack[Facts],
) -> ClusterView:
    """``traffic_mib``: of each bundle of each broker, along the ring."""
    return Fleet.of(traffic_mib, capacity_mib).view(**facts)


@dataclass
class Fleet:
    """Minute after minute: observe, shed, carry out, report."""

    owners: dict[Bundle, str]
    lines: dict[Bundle, BundleStats]
    capacity_mib: dict[str, float]
    ring: Ring
    rules: SheddingRules = field(default_factory=lambda: rules_of(CALM))
    now_s: float = NOW_S
    unloaded_s: dict[Bundle, float] = field(default_factory=dict)
    memory: BalanceMemory = field(default_factory=BalanceMemory)
    constraints: Constraints = NO_CONSTRAINTS
    cpu_ratio: dict[str, float] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()

    @classmethod
    def of(
        cls,
        traffic_mib: Mapping[str, Sequence[float]],
        capacity_mib: Mapping[str, float] | None = None,
        rules: SheddingRules | None = None,
    ) -> "Fleet":
        """The first bundles of the ring are the first broker's."""
        items = [(owner, mib) for owner, each in traffic_mib.items() for mib in each]
        ring = Ring.even(NAMESPACE, max(16, len(items)))
        pairs = list(zip(ring.bundles, items, strict=False))
        return cls(
            {bundle: owner for bundle, (owner, _) in pairs},
            {bundle: stats(mib) for bundle, (_, mib) in pairs},
            {each: (capacity_mib or {}).get(each, CAPACITY_MIB) for each in traffic_mib},
            ring,
            rules or rules_of(CALM),
        )

    def view(self, **facts: Unpack[Facts]) -> ClusterView:
        """What is reported now."""
        brokers = [
            reporting(
                broker_id,
                {b: self.lines[b] for b, owner in self.owners.items() if owner == broker_id},
                capacity,
                self.cpu_ratio.get(broker_id, 0.0),
            )
            for broker_id, capacity in self.capacity_mib.items()
        ]
        known: Facts = {
            "rings": [self.ring],
            "unloaded_s": self.unloaded_s,
            "constraints": self.constraints,
            **facts,
        }
        return replace(cluster(sized(brokers), **known), taken_at_s=self.now_s)

    def look(self, **facts: Unpack[Facts]) -> list[Transfer]:
        """What is proposed now; nothing of it is carried out."""
        view = self.view(**facts)
        self.memory = POLICY.observe(self.memory, view, self.rules)
        self.decisions = POLICY.shed(view, self.memory, self.rules)
        return transfers(self.decisions)

    def cycle(self) -> list[Transfer]:
        """What is proposed, all of it carried out within the minute."""
        moves = self.look()
        for move in moves:
            self.carry(move.bundle, move.destination)
        self.now_s += 60.0
        return moves

    def carry(self, bundle: Bundle, broker_id: str) -> None:
        """A move, of the strategy or of an operator."""
        self.owners[bundle] = broker_id
        self.unloaded_s[bundle] = self.now_s

    @property
    def usage(self) -> dict[str, float]:
        """Of each broker, 1.0 is full."""
        used = dict.fromkeys(self.capacity_mib, 0.0)
        for bundle, owner in self.owners.items():
            used[owner] += self.lines[bundle].throughput / MIB
        return {each: used[each] / capacity for each, capacity in self.capacity_mib.items()}


def shed(view: ClusterView, rules: SheddingRules) -> tuple[Decision, ...]:
    """What the strategy decides for a cluster that it has never seen before."""
    memory = POLICY.observe(POLICY.recall(None), view, rules)
    return POLICY.shed(view, memory, rules)


def transfers(decisions: Iterable[Decision]) -> list[Transfer]:
    """The transfers among the decisions."""
    return [each for each in decisions if isinstance(each, Transfer)]
