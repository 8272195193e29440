"""UniformLoadShedder: the highest broker gives to the rest (docs: pulsar-shedders).

Brokers are compared by their reported traffic, first by messages, then by bytes, and not by usage.
Kept from Pulsar: one broker sheds per cycle, minimums are independent of the size of the cluster,
and bytes are not compared if there are too few messages. Not kept: the search for the lowest
throughput that begins at 2^31, a bug in Pulsar, and moves to a broker of higher usage, which the
plan refuses.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.participants import participants, too_few
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.shedding.measure import Amount, Measure
from broker_ctl.core.strategies.shedding.policy import Memoryless, NoMemory
from broker_ctl.core.strategies.shedding.selection import (
    coolest_receiver,
    fitting,
    movable,
    nothing_fits,
)

_RATE_KEY: Final = "loadBalancerMsgRateDifferenceShedderThreshold"
_MULTIPLE_KEY: Final = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
# Less than this is not traffic; it counts as 1 so that it can be compared with.
_NO_TRAFFIC: Final = 1e-6


@dataclass(frozen=True, slots=True)
class _Gap:
    """The highest and the lowest broker by one measure."""

    measure: Measure
    source: BrokerView
    highest: float
    lowest_id: str
    lowest: float

    @classmethod
    def of(cls, view: ClusterView, brokers: Iterable[BrokerView], measure: Measure) -> Self:
        by_id = sorted(brokers, key=lambda broker: broker.broker_id)
        traffic = [(measure.of_broker(view, broker), broker) for broker in by_id]
        # Of equals, the first by name gives and the last receives.
        highest, source = max(traffic, key=lambda item: item[0])
        lowest, receiver = min(reversed(traffic), key=lambda item: item[0])
        floor = lowest if lowest > _NO_TRAFFIC else 1.0
        return cls(measure, source, highest, receiver.broker_id, floor)

    @property
    def percent(self) -> float:
        """How far the highest is above the lowest."""
        return (self.highest - self.lowest) * 100 / self.lowest

    @property
    def multiple(self) -> float:
        """How many times the lowest the highest is."""
        return self.highest / self.lowest

    @property
    def text(self) -> str:
        high, low = self.measure.text(self.highest), self.measure.text(self.lowest)
        return f"{self.source.broker_id} has {high}, {self.lowest_id} {low}"


class UniformLoadShedder(Memoryless):
    """Evens out traffic, regardless of the brokers' usage."""

    def shed(
        self,
        view: ClusterView,
        memory: NoMemory,
        rules: SheddingRules,
    ) -> tuple[Decision, ...]:
        """Unload a part of the difference from the broker with the most traffic."""
        del memory
        brokers, skipped = participants(view, rules)
        if len(brokers) < 2:
            return (*skipped, too_few(view, len(brokers)))
        rate = _Gap.of(view, brokers, Measure.MSG_RATE)
        if 0 < rules.uniform.msg_rate_percent < rate.percent:
            least = rules.difference.min_msg_rate
            detail = f"{rate.text}: {rate.percent:,.0f}% more"
            return (*skipped, *_given(view, rate, least, detail, rules))
        throughput = _Gap.of(view, brokers, Measure.THROUGHPUT)
        if 0 < rules.uniform.throughput_multiple < throughput.multiple:
            least = rules.difference.min_throughput_bytes
            detail = f"{throughput.text}: {throughput.multiple:,.1f} times as much"
            return (*skipped, *_given(view, throughput, least, detail, rules))
        return (*skipped, _uniform(rate, throughput, rules))


def _given(
    view: ClusterView, gap: _Gap, least: float, detail: str, rules: SheddingRules
) -> tuple[Decision, ...]:
    source = gap.source
    # Whole messages and bytes, as in Pulsar.
    wanted = int((gap.highest - gap.lowest) * rules.difference.max_ratio)
    amount = Amount(gap.measure, wanted)
    if wanted < least:
        text = f"{detail}, but only {amount.text} should go, less than {gap.measure.text(least)}"
        return (Skip(source.broker_id, Reason.LOW_THROUGHPUT, text),)
    coolest = coolest_receiver(view, source, rules)
    free, skipped = movable(view, source, coolest, rules, amount=amount, detail=detail)
    if not free:
        return tuple(skipped)
    fit = fitting(free, amount)
    if not fit:
        return (nothing_fits(source, free, amount, detail), *skipped)
    text = f"{detail}; {amount.text} should go"
    chosen = fit[: rules.uniform.max_bundles]
    if not chosen:
        return (Skip(source.broker_id, Reason.CYCLE_LIMIT, f"{text}, in 0 bundles a cycle"),)
    unloads = [
        Unload(bundle_view.bundle, source.broker_id, Reason.OVERLOADED, text)
        for bundle_view in chosen
    ]
    return (*unloads, *skipped)


def _uniform(rate: _Gap, throughput: _Gap, rules: SheddingRules) -> Skip:
    limits = rules.uniform
    text = (
        f"{rate.text}: {rate.percent:,.0f}% more, until {limits.msg_rate_percent:g}% are "
        f"({_RATE_KEY}); {throughput.text}: {throughput.multiple:,.1f} times as much, until "
        f"{limits.throughput_multiple:g} times are ({_MULTIPLE_KEY})"
    )
    return Skip("cluster", Reason.BELOW_THRESHOLD, text)
