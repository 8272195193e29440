"""Shedding of the Simple manager (docs: pulsar-simple-manager).

A broker above the overload threshold in any of four resources sheds one bundle per cycle: the one
that uses most of the fullest resource, if another broker has enough room for it. Pulsar sheds the
first bundle or none. Here bundles that may not move (pinned, moving, in the grace period) are
skipped; otherwise they would keep their broker overloaded for half an hour.
"""

from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.participants import participants, too_few
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.load import BundleStats, SystemUsage
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.rules.simple import SimpleRules
from broker_ctl.core.strategies.shedding.policy import Memoryless, NoMemory
from broker_ctl.core.strategies.shedding.selection import permanent_obstacle

_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"


@dataclass(frozen=True, slots=True)
class SimpleShedder(Memoryless):
    """The shedding of Pulsar's SimpleLoadManagerImpl."""

    rules: SimpleRules = field(default_factory=SimpleRules)

    def shed(
        self, view: ClusterView, memory: NoMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """Propose one bundle of each overloaded broker."""
        del memory
        brokers, skipped = participants(view, rules)
        if len(brokers) < 2:
            return (*skipped, too_few(view, len(brokers)))
        decisions = [
            self._give(view, broker, rules)
            for broker in brokers
            if bottleneck(broker)[1] > self.rules.overload_percent
        ]
        return (*skipped, *(decisions or (self._calm(brokers),)))

    def _give(self, view: ClusterView, source: BrokerView, rules: SheddingRules) -> Decision:
        resource, percent = bottleneck(source)
        detail = f"{resource} at {percent:.1f} %, limit {self.rules.overload_percent:g} % ({_KEY})"
        owned = [view.bundles[bundle] for bundle in sorted(source.owned)]
        candidates = [bundle_view for bundle_view in owned if not bundle_view.is_pinned]
        if len(candidates) < 2:
            sole = candidates[0].bundle if candidates else "nothing"
            what = f"{sole} is all that it could give up, until it owns more"
            reason = Reason.SOLE_BUNDLE if candidates else Reason.NO_BUNDLES
            return Skip(source.broker_id, reason, f"{what}; {detail}")
        obstacles = {
            bundle_view.bundle: permanent_obstacle(view, bundle_view, rules)
            for bundle_view in candidates
        }
        free = [bundle_view for bundle_view in candidates if obstacles[bundle_view.bundle] is None]
        if not free:
            first = min(obstacles.values(), key=str)
            assert first is not None
            text = f"none of its {len(candidates)} bundles may go until that ends; {detail}"
            return Skip(source.broker_id, first, text)
        heaviest = max(
            free, key=lambda bundle_view: (_part(bundle_view, resource), bundle_view.bundle)
        )
        if not self._comfortable(view, source, rules):
            text = (
                f"until another broker is below {self.rules.comfort_percent:g} % in everything "
                f"(loadBalancerBrokerComfortLoadLevelPercentage); {detail}"
            )
            return Skip(source.broker_id, Reason.NO_BROKER, text)
        return Unload(heaviest.bundle, source.broker_id, Reason.OVERLOADED, detail)

    def _comfortable(self, view: ClusterView, source: BrokerView, rules: SheddingRules) -> bool:
        """Return whether a broker could receive a bundle and stay far from overload."""
        return any(
            bottleneck(view.brokers[broker_id])[1] < self.rules.comfort_percent
            for broker_id in view.receivers(rules.report_ttl_s, source.broker_id)
        )

    def _calm(self, brokers: tuple[BrokerView, ...]) -> Skip:
        top = max(brokers, key=lambda broker: (bottleneck(broker)[1], broker.broker_id))
        resource, percent = bottleneck(top)
        text = (
            f"{top.broker_id} is highest, {resource} at {percent:.1f} %, until above "
            f"{self.rules.overload_percent:g} % ({_KEY})"
        )
        return Skip("cluster", Reason.BELOW_THRESHOLD, text)


def is_overloaded(usage: SystemUsage, rules: SimpleRules) -> bool:
    """Whether any of the four resources is above the overload threshold."""
    return max(_percents(usage).values()) > rules.overload_percent


def is_underloaded(usage: SystemUsage, rules: SimpleRules) -> bool:
    """Whether all of the four resources are below the underload threshold."""
    return max(_percents(usage).values()) < rules.underload_percent


def bottleneck(broker: BrokerView) -> tuple[str, float]:
    """The fullest of the four resources that count, and its percentage once every move is done.

    Load that has moved since the report changes all resources in proportion to the broker's usage;
    otherwise a broker would shed a bundle per cycle until its next report.
    """
    percents = _percents(broker.load.usage)
    change = (broker.expected.usage_ratio - broker.usage_ratio) * 100
    resource = max(percents, key=lambda name: percents[name])
    return resource, max(0.0, percents[resource] + change)


def _percents(usage: SystemUsage) -> dict[str, float]:
    return {
        "outgoing bandwidth": usage.bandwidth_out.percent,
        "incoming bandwidth": usage.bandwidth_in.percent,
        "CPU": usage.cpu.percent,
        "direct memory": usage.direct_memory.percent,
    }


def _part(bundle_view: BundleView, resource: str) -> float:
    """Return the statistic of a bundle that represents its use of a resource."""
    stats = bundle_view.current or BundleStats()
    return {
        "outgoing bandwidth": stats.msg_throughput_out,
        "incoming bandwidth": stats.msg_throughput_in,
        "CPU": stats.msg_rate,
        "direct memory": float(stats.topics + stats.sessions),
    }[resource]
