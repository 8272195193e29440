"""Transcripts of whole cycles: what a log would say, line by line.

Between the cycles a small world carries the plans out and every broker reports again. A broker's
capacity is 1,000 MiB/s, and a topic keeps its traffic wherever its bundle goes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from broker_ctl.core.cluster.decisions import Split, Transfer
from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.load import BundleLoad, BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules, SheddingRules, SplitRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory, ThresholdShedder
from broker_ctl.core.strategies.splitting.candidates import REMEDY, candidates
from tests.support.clusters.views import NAMESPACE, broker, stats

CAPACITY_MIB = 1000
SHEDDER = ThresholdShedder()


@dataclass
class World:
    """Topics by hash with their MiB/s, and who owns which bundle."""

    topics: Mapping[int, float]
    ring: Ring
    owners: dict[Bundle, str]
    brokers: tuple[str, ...]
    shedding: SheddingRules = field(default_factory=SheddingRules)
    now_s: float = 0.0
    memory: ThresholdMemory = field(default_factory=ThresholdMemory)
    unloaded_s: dict[Bundle, float] = field(default_factory=dict)
    split_s: dict[Bundle, float] = field(default_factory=dict)
    loads: dict[Bundle, BundleLoad] = field(default_factory=dict)

    def line(self, bundle: Bundle) -> BundleStats:
        inside = [mib for where, mib in self.topics.items() if where in bundle.range]
        return stats(sum(inside), topics=len(inside), msg_rate=sum(inside))

    def usage(self, broker_id: str) -> float:
        owned = [bundle for bundle, owner in self.owners.items() if owner == broker_id]
        return sum(self.line(bundle).throughput for bundle in owned) / (CAPACITY_MIB * 1024 * 1024)

    def view(self) -> ClusterView:
        for bundle in self.owners:
            self.loads[bundle] = self.loads.get(bundle, BundleLoad.unseen()).fold(self.line(bundle))
        return snapshot(
            epoch=1,
            taken_at_s=self.now_s,
            draw_seed=int(self.now_s),
            brokers=[
                broker(
                    broker_id,
                    self.usage(broker_id),
                    {b: self.line(b) for b, owner in self.owners.items() if owner == broker_id},
                )
                for broker_id in self.brokers
            ],
            bundles=[
                BundleView(
                    bundle,
                    owner,
                    self.loads[bundle],
                    self.unloaded_s.get(bundle),
                    self.split_s.get(bundle),
                )
                for bundle, owner in self.owners.items()
            ],
            rings=[self.ring],
        )

    def cycle(self, pause_s: float = 60) -> list[str]:
        """One cycle of the leader, carried out: its log."""
        view = self.view()
        self.memory = SHEDDER.observe(self.memory, view, self.shedding)
        made = plan(
            view,
            (
                *candidates(view, SplitRules()),
                *SHEDDER.shed(view, self.memory, self.shedding),
            ),
            placement=LeastLongTermMessageRate(),
            placement_rules=PlacementRules(),
            budgets=Budgets(),
        )
        self.carry_out(made)
        self.now_s += pause_s
        return [decision.sentence for decision in (*made.decisions, *made.skipped)]

    def carry_out(self, made: Plan) -> None:
        for decision in made.decisions:
            if isinstance(decision, Transfer):
                self.owners[decision.bundle] = decision.destination
                self.unloaded_s[decision.bundle] = self.now_s
            elif isinstance(decision, Split):
                owner = self.owners.pop(decision.bundle)
                self.ring = self.ring.split(decision.bundle, decision.boundaries)
                for child in decision.bundle.cut(decision.boundaries):
                    self.owners[child] = owner
                    self.split_s[child] = self.now_s


def test_a_hot_bundle_of_several_topics_is_split_and_its_load_then_shed() -> None:
    ring = Ring.even(NAMESPACE, 2)
    hot, cold = ring.bundles
    world = World(
        topics={0x10000000: 400.0, 0x50000000: 400.0, 0x90000000: 20.0},
        ring=ring,
        owners={hot: "b1", cold: "b2"},
        brokers=("b1", "b2"),
    )
    key = "loadBalancerBrokerThresholdShedderPercentage"
    excess = f"80.0% is 39.0 points above the mean of 41.0% ({key})"
    until = f"until 10 points above it ({key})"
    limit = "more than 100.0 MiB/s (loadBalancerNamespaceBundleMaxBandwidthMbytes)"
    assert world.cycle() == [
        f"split {hot} of b1 at 0x40000000: bandwidth: 800.0 MiB/s, {limit}",
        f"skip b1: sole bundle: {hot} is all that it could give up, until it owns more; {excess}",
    ]
    left = "tenant/ns/0x00000000_0x40000000"
    right = "tenant/ns/0x40000000_0x80000000"
    one_topic = (
        f"its one topic has 400.0 MiB/s; {REMEDY}; and fewer than 2 topics, until it has more; it "
        f"has 400.0 MiB/s, {limit}"
    )
    move = f"{left} (400.0 MiB/s) from b1 (80.0% -> 40.0%) to b2 (2.0% -> 42.0%)"
    why = f"{excess}; 272.0 MiB/s should go; b2 has 20 msg/s, the lowest of 1"
    assert world.cycle() == [
        f"transfer {move}: overloaded: {why}",
        f"skip {left}: hot topic: {one_topic}",
        f"skip {right}: hot topic: {one_topic}",
    ]
    assert world.cycle() == [
        f"skip cluster: below threshold: b1 is highest at 40.0%, mean 41.0%, {until}",
        f"skip {left}: hot topic: {one_topic}",
        f"skip {right}: hot topic: {one_topic}",
    ]


def test_two_brokers_at_ninety_and_ten_come_within_the_band_and_stay_there() -> None:
    ring = Ring.even(NAMESPACE, 20)
    world = World(
        topics={bundle.range.low + 1: 50.0 for bundle in ring.bundles},
        ring=ring,
        owners={bundle: "b1" if n < 18 else "b2" for n, bundle in enumerate(ring.bundles)},
        brokers=("b1", "b2"),
    )
    usages = []
    for _ in range(60):
        world.cycle()
        usages.append((round(world.usage("b1"), 2), round(world.usage("b2"), 2)))
    assert usages[:4] == [(0.8, 0.2), (0.7, 0.3), (0.6, 0.4), (0.55, 0.45)]
    assert set(usages[4:]) == {(0.55, 0.45)}


def test_a_broker_that_came_back_empty_is_filled_under_the_lower_boundary() -> None:
    ring = Ring.even(NAMESPACE, 50)
    names = ("b1", "b2", "b3", "b4", "b5")
    world = World(
        topics={bundle.range.low + 1: 50.0 for bundle in ring.bundles},
        ring=ring,
        owners={bundle: names[n % 5] for n, bundle in enumerate(ring.bundles)},
        brokers=(*names, "b6"),
    )
    until = "until 10 points above it (loadBalancerBrokerThresholdShedderPercentage)"
    assert world.cycle() == [
        f"skip cluster: below threshold: b1 is highest at 50.0%, mean 41.7%, {until}"
    ]
    world.shedding = replace(world.shedding, is_lower_boundary_enabled=True)
    for _ in range(60):
        world.cycle()
    assert world.usage("b6") > 0.3
    assert max(world.usage(name) for name in names) <= 0.5
