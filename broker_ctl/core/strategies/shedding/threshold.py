"""ThresholdShedder: brokers far above the mean unload bundles (docs: pulsar-shedders).

A broker's *level* is its moving average, as in Pulsar, but never above its expected usage: the
average lags by ten cycles or more, and would keep unloading a broker that has long been relieved
(Pulsar's over-unloading: PIP-217, PIP-364). The level of a receiver is never below its expected
usage. ``expected`` includes every move that is in flight or not yet reported, so the strategy need
not remember its moves, and an aborted move corrects itself.

Kept from Pulsar: the band in percentage points and the minimum in bytes/s, both independent of the
size of the cluster. Usages of [12, 2, 1, 1] %, or five brokers at 50 % beside an idle one, trigger
nothing; with the lower boundary the latter does. Not kept: the second update of the averages when
the lower boundary is checked, a bug in Pulsar.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.participants import participants, too_few
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.load_vector import throughput_text
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.shedding.measure import Measure
from broker_ctl.core.strategies.shedding.selection import heaviest

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
