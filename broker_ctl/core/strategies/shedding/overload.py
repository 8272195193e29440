"""OverloadShedder: brokers above a fixed usage unload bundles (docs: pulsar-shedders).

Usage is the expected usage after all moves in flight, so that a broker is not relieved again
before its next report. Kept from Pulsar: the strategy ignores the mean, so that brokers below the
limit are never evened out. Not kept: unloading if all other brokers are equally full, which in
Pulsar moves bundles in circles.
"""

from typing import Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip
from broker_ctl.core.cluster.participants import participants, too_few
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.shedding.measure import Measure
from broker_ctl.core.strategies.shedding.policy import Memoryless, NoMemory
from broker_ctl.core.strategies.shedding.selection import heaviest

_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"


class OverloadShedder(Memoryless):
    """Pulsar's default up to 2.9."""

    def shed(
        self,
        view: ClusterView,
        memory: NoMemory,
        rules: SheddingRules,
    ) -> tuple[Decision, ...]:
        """Unload the excess over the limit, hottest broker first."""
        del memory
        brokers, skipped = participants(view, rules)
        if len(brokers) < 2:
            return (*skipped, too_few(view, len(brokers)))
        ranked = sorted(brokers, key=lambda b: (-b.expected.usage_ratio, b.broker_id))
        limit = rules.overload.overloaded_ratio
        decisions: list[Decision] = []
        for broker in ranked:
            if broker.expected.usage_ratio >= limit:
                decisions += _relieved(view, broker, rules)
        if not decisions:
            top = ranked[0]
            text = (
                f"{top.broker_id} is highest at {top.expected.usage_ratio:.1%}, until {limit:.1%} "
                f"({_KEY})"
            )
            decisions.append(Skip("cluster", Reason.BELOW_THRESHOLD, text))
        return (*skipped, *decisions)


def _relieved(view: ClusterView, broker: BrokerView, rules: SheddingRules) -> tuple[Decision, ...]:
    usage, limit = broker.expected.usage_ratio, rules.overload.overloaded_ratio
    points = (usage - limit) * 100
    # As usage is: now. Averages lag, and a broker would be relieved of what it had minutes ago.
    carried_bytes = Measure.THROUGHPUT.of_broker(view, broker)
    return heaviest(
        view,
        broker,
        rules,
        target_bytes=(usage - limit + rules.margin_ratio) * carried_bytes,
        reason=Reason.OVERLOADED,
        detail=f"{usage:.1%} is {points:.1f} points above the limit of {limit:.1%} ({_KEY})",
    )
