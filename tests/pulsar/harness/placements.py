"""The brokers that each placement strategy draws from, with and without each departure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.cluster.view import ClusterView
from tests.pulsar.harness.departures import Departure
from tests.pulsar.harness.shedders import On, Seen


@dataclass(frozen=True, slots=True)
class Asked:
    """One choice of a broker for a bundle.

    Attributes:
        seen: the cycle.
        view: ours, with what was promised in this cycle so far.
        candidates: in the order of Pulsar's hash set.
        rates: msg/s of every broker: long-term averages of what it has and was promised.
    """

    seen: Seen
    view: ClusterView
    candidates: Sequence[str]
    rates: dict[str, float]

    def usage(self, broker: str) -> float:
        if Departure.PROMISED_USAGE in self.seen.on:
            return self.seen.usage(broker)
        promised = self.view.brokers[broker].expected.usage_ratio
        before = self.seen.cycle.view.brokers[broker].expected.usage_ratio
        return promised if promised != before else self.seen.usage(broker)


class LeastRate:
    """6.2, LeastLongTermMessageRate."""

    def among(self, asked: Asked) -> frozenset[str]:
        limit = asked.seen.cycle.rules.placement.overloaded_ratio
        rates = {b: asked.rates[b] for b in asked.candidates if asked.usage(b) <= limit}
        if not rates:
            return frozenset(asked.candidates)
        least = min(rates.values())
        return frozenset(broker for broker, rate in rates.items() if rate == least)


@dataclass(slots=True)
class LeastUsage:
    """6.2, LeastResourceUsageWithWeight; its averages live as long as it does."""

    averages: dict[str, float] = field(default_factory=dict)

    def among(self, asked: Asked) -> frozenset[str]:
        rules = asked.seen.cycle.rules.placement
        if Departure.AVERAGE_PER_CHOICE in asked.seen.on:
            usages = {broker: self._folded(asked, broker) for broker in asked.candidates}
        else:
            usages = {broker: asked.usage(broker) for broker in asked.candidates}
        mean = asked.seen.mean([*usages.values()])
        more = rules.usage_difference_ratio
        below = frozenset(broker for broker, usage in usages.items() if usage + more <= mean)
        return below or frozenset(asked.candidates)

    def _folded(self, asked: Asked, broker: str) -> float:
        keep = asked.seen.cycle.rules.shedding.history_ratio
        self.averages = {b: u for b, u in self.averages.items() if b in asked.seen.cycle.reports}
        usage, past = asked.usage(broker), self.averages.get(broker)
        if past is not None and asked.seen.total(broker, "msg_rate") > 0:
            usage = past * keep + (1 - keep) * usage
        self.averages[broker] = usage
        return usage


@dataclass(slots=True)
class Turns:
    """6.2, RoundRobinBrokerSelector; its count and its order live as long as it does."""

    count: int = 0
    order: Sequence[str] = ()

    def next(self, candidates: Sequence[str]) -> str:
        """The broker whose turn it is; ``candidates`` in the order of Pulsar's hash set."""
        place = self.count % len(candidates)
        self.count += 1
        if len(self.order) != len(candidates) or self.order[place] not in candidates:
            self.order = candidates
        return self.order[place]


PLACERS: Final[dict[str, tuple[Callable[[], LeastRate | LeastUsage], On]]] = {
    "LeastLongTermMessageRate": (
        LeastRate,
        frozenset({Departure.PROMISED_USAGE, Departure.ROUNDING}),
    ),
    "LeastResourceUsageWithWeight": (
        LeastUsage,
        frozenset(
            {Departure.PROMISED_USAGE, Departure.ROUNDING, Departure.AVERAGE_PER_CHOICE},
        ),
    ),
}
