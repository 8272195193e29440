"""TransferShedder: keeps the standard deviation of usage below a target (docs: pulsar-shedders).

A strategy of Pulsar's extensible load manager. It evens out the hottest and the coolest broker,
then the next hottest, until usage is even or enough brokers have shed. It acts only if the cluster
has been unbalanced for some cycles, if reports have settled after the last unload, and if all
owners of bundles have reported.

Usage is a moving average in which a sample has the weight of the time since the previous one, as
if each report of a broker were a sample: with one cycle per minute it follows within two minutes.

Kept from Pulsar: bundles are chosen from the light end of the heaviest few; a swap must relieve the
hot broker by a quarter. Not kept: the wrong sum after a swap (see `exchange`), and a first leg of a
swap that would make the cool broker the hotter one until the second leg is done.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.view import BrokerView, ClusterView, participants, too_few, until_text
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.avg import BundleExchange, exchange
from broker_ctl.core.strategies.shedding.policy import Spread, build_transfer


@dataclass(frozen=True, slots=True)
class TransferMemory:
    """The strategy's memory.

    Attributes:
        history: moving average of each broker's usage, 1.0 is full.
        observed_s: time of the last sample, in seconds.
        hits: number of consecutive cycles in which the cluster was unbalanced.
        is_due: whether there were enough hits to act; they are then reset.
    """

    history: Mapping[str, float] = field(default_factory=dict)
    observed_s: float | None = None
    hits: int = 0
    is_due: bool = False

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "history": dict(self.history),
            "observed_s": self.observed_s,
            "hits": self.hits,
            "is_due": self.is_due,
        }


class TransferShedder:
    """Evens out a few pairs a cycle, with swaps."""

    def recall(self, row: Mapping[str, Any] | None) -> TransferMemory:
        """The memory that ``to_row`` wrote; an empty one for None."""
        known = row or {}
        observed_s = known.get("observed_s")
        return TransferMemory(
            {str(key): float(value) for key, value in known.get("history", {}).items()},
            None if observed_s is None else float(observed_s),
            int(known.get("hits", 0)),
            bool(known.get("is_due", False)),
        )

    def observe(
        self, memory: TransferMemory, view: ClusterView, rules: SheddingRules
    ) -> TransferMemory:
        """Fold one sample a broker, and count a hit; brokers that left are forgotten."""
        history = _smooth_usage(memory, view, rules)
        updated = TransferMemory(history, view.taken_at_s, memory.hits)
        brokers, _ = participants(view, rules)
        if _hindrance(view, brokers, rules):
            return updated
        spread = _spread(brokers, history)
        coolest, *_, hottest = spread.ranked
        if spread.trigger(hottest, coolest, rules) is None:
            return replace(updated, hits=0)
        updated = replace(updated, hits=memory.hits + 1)
        if updated.hits <= rules.transfer.hits:
            return updated
        decisions = _transfers(view, brokers, spread, rules)
        if all(isinstance(decision, Skip) for decision in decisions):
            return updated
        return replace(updated, hits=0, is_due=True)

    def shed(
        self, view: ClusterView, memory: TransferMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        """Even out pair after pair, once the cluster has been uneven for long enough."""
        brokers, skipped = participants(view, rules)
        hindrance = _hindrance(view, brokers, rules)
        if hindrance:
            return (*skipped, hindrance)
        spread = _spread(brokers, memory.history)
        coolest, *_, hottest = spread.ranked
        trigger = spread.trigger(hottest, coolest, rules)
        if trigger is None:
            return (*skipped, _balanced_skip(spread, hottest, coolest, rules))
        if not memory.is_due and memory.hits <= rules.transfer.hits:
            text = (
                f"{trigger[1]}: {memory.hits} cycles, until more than {rules.transfer.hits} "
                "(loadBalancerSheddingConditionHitCountThreshold)"
            )
            return (*skipped, Skip("cluster", Reason.HIT_COUNT, text))
        return (*skipped, *_transfers(view, brokers, spread, rules))


def _smooth_usage(
    memory: TransferMemory, view: ClusterView, rules: SheddingRules
) -> dict[str, float]:
    elapsed_s = max(0.0, view.taken_at_s - (memory.observed_s or 0.0))
    keep = rules.history_ratio ** (elapsed_s / rules.transfer.sample_s)
    history: dict[str, float] = {}
    for broker_id, broker in sorted(view.brokers.items()):
        usage = broker.expected.usage_ratio
        history[broker_id] = memory.history.get(broker_id, usage) * keep + usage * (1 - keep)
    return history


def _spread(brokers: Iterable[BrokerView], history: Mapping[str, float]) -> Spread:
    return Spread(
        {b.broker_id: history.get(b.broker_id, b.expected.usage_ratio) for b in brokers},
        {b.broker_id: b.expected.throughput_bytes for b in brokers},
    )


def _hindrance(
    view: ClusterView, brokers: tuple[BrokerView, ...], rules: SheddingRules
) -> Skip | None:
    """Return why the view is not judged in this cycle."""
    if len(brokers) < 2:
        return too_few(view, len(brokers))
    bundles = view.bundles.values()
    owners = {bundle_view.owner for bundle_view in bundles}
    unloaded_s = (
        bundle_view.last_unloaded_s
        for bundle_view in bundles
        if bundle_view.last_unloaded_s is not None
    )
    newest_s = max(unloaded_s, default=-math.inf)
    silent = sorted(owner for owner in owners if owner is not None and owner not in view.brokers)
    if silent:
        text = f"until {len(silent)} owners have reported, {silent[0]} among them"
        return Skip("cluster", Reason.NO_LOAD_DATA, text)
    delay_s, age_s = rules.transfer.delay_s, view.taken_at_s - newest_s
    if age_s < delay_s:
        text = (
            f"a bundle was unloaded {age_s:.0f} s ago, reports settle within {delay_s:g} s "
            f"(loadBalanceSheddingDelayInSeconds), {until_text(view, newest_s + delay_s)}"
        )
        return Skip("cluster", Reason.COOLING_DOWN, text)
    return None


def _transfers(
    view: ClusterView, brokers: tuple[BrokerView, ...], spread: Spread, rules: SheddingRules
) -> tuple[Decision, ...]:
    by_id = {broker.broker_id: broker for broker in brokers}
    waiting = spread.ranked
    decisions: list[Decision] = []
    givers = 0
    while len(waiting) > 1 and givers < rules.transfer.max_brokers:
        coolest, hottest = waiting[0], waiting[-1]
        trigger = spread.trigger(hottest, coolest, rules)
        if trigger is None:
            break
        reason, detail = trigger
        waiting.pop()
        source, destination = by_id[hottest], by_id[coolest]
        wanted_bytes = _wanted_bytes(spread, source, destination)
        found = exchange(view, source, destination, rules, wanted_bytes=wanted_bytes, detail=detail)
        if rules.transfer.is_transfer_enabled:
            decisions += _moves(source, destination, found, reason, detail)
        else:
            decisions += [
                Unload(bundle_view.bundle, hottest, reason, detail) for bundle_view in found.given
            ]
        decisions += found.skipped
        if found.given:
            givers += 1
            waiting.pop(0)
            spread = spread.after(hottest, coolest, found.net_usage, found.net_bytes)
    return tuple(decisions)


def _wanted_bytes(spread: Spread, source: BrokerView, destination: BrokerView) -> float:
    """Return the bytes/s of the hot broker that amount to half the difference in usage."""
    hot, cool = spread.usage[source.broker_id], spread.usage[destination.broker_id]
    return source.expected.throughput_bytes * (hot - cool) / 2 / hot if hot > 0 else 0.0


def _moves(
    source: BrokerView, destination: BrokerView, found: BundleExchange, reason: Reason, detail: str
) -> list[Decision]:
    back = f"{detail}; in exchange for what {source.broker_id} gives"
    return [
        *(
            build_transfer(bundle_view, source, destination, reason, detail)
            for bundle_view in found.given
        ),
        *(
            build_transfer(bundle_view, destination, source, reason, back)
            for bundle_view in found.returned
        ),
    ]


def _balanced_skip(spread: Spread, hottest: str, coolest: str, rules: SheddingRules) -> Skip:
    text = (
        f"{hottest} is highest at {spread.usage[hottest]:.1%}, {coolest} lowest at "
        f"{spread.usage[coolest]:.1%}, deviation {spread.std:.1%}, "
        f"until it exceeds {rules.transfer.target_std:.1%} (loadBalancerBrokerLoadTargetStd)"
    )
    return Skip("cluster", Reason.BELOW_THRESHOLD, text)
