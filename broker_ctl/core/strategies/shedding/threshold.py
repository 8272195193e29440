"""OverloadShedder, ThresholdShedder, UniformLoadShedder (docs: pulsar-shedders)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Final, Self

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.view import BrokerView, ClusterView, participants, too_few
from broker_ctl.core.model.load import throughput_text
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.policy import (
    Amount,
    Measure,
    Memoryless,
    NoMemory,
    coolest_receiver,
    fitting,
    heaviest,
    movable,
    nothing_fits,
)

# ThresholdShedder: brokers far above the mean unload bundles (docs: pulsar-shedders).
#
# A broker's *level* is its moving average, as in Pulsar, but never above its expected usage: the
# average lags by ten cycles or more, and would keep unloading a broker that has long been
# relieved (Pulsar's over-unloading: PIP-217, PIP-364). The level of a receiver is never below its
# expected usage. ``expected`` includes every move that is in flight or not yet reported, so the
# strategy need not remember its moves, and an aborted move corrects itself.
#
# Kept from Pulsar: the band in percentage points and the minimum in bytes/s, both independent of
# the size of the cluster. Usages of [12, 2, 1, 1] %, or five brokers at 50 % beside an idle one,
# trigger nothing; with the lower boundary the latter does. Not kept: the second update of the
# averages when the lower boundary is checked, a bug in Pulsar.


_KEY: Final = "loadBalancerBrokerThresholdShedderPercentage"


@dataclass(frozen=True, slots=True)
class ThresholdMemory:
    """Moving average of each broker's usage, 1.0 is full."""

    history: Mapping[str, float] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"history": dict(self.history)}


@dataclass(frozen=True, slots=True)
class _Level:
    """The moving average and the expected usage of one broker."""

    broker: BrokerView
    history: float

    @property
    def as_source(self) -> float:
        return min(self.history, self.broker.expected.usage_ratio)

    @property
    def as_receiver(self) -> float:
        return max(self.history, self.broker.expected.usage_ratio)


class ThresholdShedder:
    """Pulsar's default from 2.10 to 4.x."""

    def recall(self, row: Mapping[str, Any] | None) -> ThresholdMemory:
        """The memory that ``to_row`` wrote; an empty one for None."""
        history = (row or {}).get("history", {})
        return ThresholdMemory({str(key): float(value) for key, value in history.items()})

    def observe(
        self, memory: ThresholdMemory, view: ClusterView, rules: SheddingRules
    ) -> ThresholdMemory:
        """Fold one sample a broker; brokers that left are forgotten."""
        history: dict[str, float] = {}
        for broker_id, broker in sorted(view.brokers.items()):
            usage, past = broker.expected.usage_ratio, memory.history.get(broker_id)
            keep = 0.0 if past is None else rules.history_ratio
            history[broker_id] = (past or 0.0) * keep + usage * (1 - keep)
        return ThresholdMemory(history)

    def shed(
        self, view: ClusterView, memory: ThresholdMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """Unload what is above mean + threshold; else, if enabled, feed one below it."""
        brokers, skipped = participants(view, rules)
        if len(brokers) < 2:
            return (*skipped, too_few(view, len(brokers)))
        levels = _levels(brokers, memory)
        mean = fsum(level.history for level in levels) / len(levels)
        decisions = _unload_overloaded(view, levels, mean, rules)
        if rules.is_lower_boundary_enabled and not any(isinstance(d, Unload) for d in decisions):
            decisions += _lower_boundary(view, levels, mean, rules)
        return (*skipped, *(decisions or (_balanced_skip(levels, mean, rules),)))


def _levels(brokers: Iterable[BrokerView], memory: ThresholdMemory) -> list[_Level]:
    """Highest first."""
    levels = [
        _Level(broker, memory.history.get(broker.broker_id, broker.expected.usage_ratio))
        for broker in brokers
    ]
    return sorted(levels, key=lambda level: (-level.as_source, level.broker.broker_id))


def _unload_overloaded(
    view: ClusterView, levels: list[_Level], mean: float, rules: SheddingRules
) -> tuple[Decision, ...]:
    limit = mean + rules.threshold_ratio
    decisions: list[Decision] = []
    for level in levels:
        usage = level.as_source
        if usage < limit:
            continue
        excess_ratio = usage - limit + rules.margin_ratio
        detail = f"{usage:.1%} is {_points(usage - mean)} above the mean of {mean:.1%} ({_KEY})"
        decisions += _give(
            view,
            level.broker,
            rules,
            target_ratio=excess_ratio,
            reason=Reason.OVERLOADED,
            detail=detail,
        )
    return tuple(decisions)


def _lower_boundary(
    view: ClusterView, levels: list[_Level], mean: float, rules: SheddingRules
) -> tuple[Decision, ...]:
    """Feed idle brokers from the broker with the highest level."""
    idle = [level for level in levels if level.as_receiver < mean - rules.threshold_ratio]
    givers = [
        level
        for level in levels
        if level.as_source > mean - rules.threshold_ratio and len(level.broker.owned) > 1
    ]
    if not idle or not givers:
        return ()
    giver = givers[0].broker
    coolest = min(idle, key=lambda level: (level.as_receiver, level.broker.broker_id))
    target_ratio = rules.threshold_ratio * rules.lower_boundary_ratio
    detail = (
        f"{coolest.broker.broker_id} at {coolest.as_receiver:.1%} is "
        f"{_points(mean - coolest.as_receiver)} below the mean of {mean:.1%} ({_KEY})"
    )
    return _give(
        view,
        giver,
        rules,
        target_ratio=target_ratio,
        reason=Reason.UNDERLOADED_RECEIVER,
        detail=detail,
    )


def _give(
    view: ClusterView,
    source: BrokerView,
    rules: SheddingRules,
    *,
    target_ratio: float,
    reason: Reason,
    detail: str,
) -> tuple[Decision, ...]:
    # Of what it carries now, as usage is: averages lag, and would ask for what was there before.
    target_bytes = target_ratio * Measure.THROUGHPUT.of_broker(view, source)
    if target_bytes < rules.min_throughput_bytes:
        least = throughput_text(rules.min_throughput_bytes)
        text = f"{detail}, but only {throughput_text(target_bytes)} should go, less than {least}"
        return (Skip(source.broker_id, Reason.LOW_THROUGHPUT, text),)
    return heaviest(view, source, rules, target_bytes=target_bytes, reason=reason, detail=detail)


def _balanced_skip(levels: list[_Level], mean: float, rules: SheddingRules) -> Skip:
    top = levels[0]
    text = (
        f"{top.broker.broker_id} is highest at {top.as_source:.1%}, mean {mean:.1%}, "
        f"until {rules.threshold_points:g} points above it ({_KEY})"
    )
    return Skip("cluster", Reason.BELOW_THRESHOLD, text)


def _points(difference_ratio: float) -> str:
    return f"{difference_ratio * 100:.1f} points"


# OverloadShedder: brokers above a fixed usage unload bundles (docs: pulsar-shedders).
#
# Usage is the expected usage after all moves in flight, so that a broker is not relieved again
# before its next report. Kept from Pulsar: the strategy ignores the mean, so that brokers below
# the limit are never evened out. Not kept: unloading if all other brokers are equally full, which
# in Pulsar moves bundles in circles.


_OVERLOAD_KEY: Final = "loadBalancerBrokerOverloadedThresholdPercentage"


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
                f"({_OVERLOAD_KEY})"
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
        detail=f"{usage:.1%} is {points:.1f} points above the limit of {limit:.1%} "
        f"({_OVERLOAD_KEY})",
    )


# UniformLoadShedder: the highest broker gives to the rest (docs: pulsar-shedders).
#
# Brokers are compared by their reported traffic, first by messages, then by bytes, and not by
# usage. Kept from Pulsar: one broker sheds per cycle, minimums are independent of the size of the
# cluster, and bytes are not compared if there are too few messages. Not kept: the search for the
# lowest throughput that begins at 2^31, a bug in Pulsar, and moves to a broker of higher usage,
# which the plan refuses.


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
