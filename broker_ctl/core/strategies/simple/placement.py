"""Placement of the Simple manager (docs: pulsar-simple-manager).

Bundles that were promised and not yet reported count, so that a burst of choices is spread. Pulsar
uses a rotating cursor or a random number; here the view's seed decides, so that the same view
always gives the same choice.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.tie_break import rendezvous_choice, splitmix64
from broker_ctl.core.rules.rules import PlacementRules
from broker_ctl.core.rules.simple import SimpleRules, SimpleStrategy
from broker_ctl.core.strategies.placement.policy import Choice
from broker_ctl.core.strategies.simple.quota import QuotaBook
from broker_ctl.core.strategies.simple.rank import Rank, rank


@dataclass(frozen=True, slots=True)
class SimplePlacement:
    """One of the three strategies of SimpleLoadManagerImpl, as its rules say."""

    rules: SimpleRules = field(default_factory=SimpleRules)
    book: QuotaBook = field(default_factory=QuotaBook)

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the receiver among ``candidates``."""
        del rules  # the Simple manager has thresholds of its own
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        ranks = [rank(view.brokers[broker_id], self.book) for broker_id in sorted(candidates)]
        if self.rules.strategy is SimpleStrategy.WEIGHTED_RANDOM:
            return _by_weight(view, bundle, ranks)
        return self._emptiest(view, bundle, ranks)

    def _emptiest(self, view: ClusterView, bundle: Bundle, ranks: list[Rank]) -> Choice:
        """Choose the emptiest broker; if it is too full, an idle one or the one with most room."""
        idle = [one for one in ranks if one.is_idle]
        busy = [one for one in ranks if not one.is_idle]
        best = self._first(busy, view, bundle) if busy else None
        if idle and (best is None or best.load_percent > self.rules.underload_percent):
            why = "nobody owns anything" if best is None else _at(best)
            return _choose_randomly(view, bundle, idle, f"idle; {why}")
        assert best is not None
        if best.load_percent >= 100:
            return _choose_randomly(view, bundle, ranks, "all are full")
        if best.load_percent > self.rules.overload_percent:
            roomiest = max(busy, key=lambda one: (one.capacity * one.free_ratio, one.broker_id))
            return Choice(roomiest.broker_id, Reason.ALL_OVERLOADED, f"most room; {_at(roomiest)}")
        if self.rules.strategy is SimpleStrategy.LEAST_MSG_RATE:
            text = f"{best.msg_rate:,.0f} msg/s expected, {_among('the least', busy)}"
            return Choice(best.broker_id, Reason.LEAST_MSG_RATE, text)
        text = f"{_among('the emptiest', busy)}; {_at(best)}"
        return Choice(best.broker_id, Reason.LEAST_USAGE, text)

    def _first(self, busy: list[Rank], view: ClusterView, bundle: Bundle) -> Rank:
        if self.rules.strategy is SimpleStrategy.LEAST_MSG_RATE:
            least = min(one.msg_rate for one in busy)
            busy = [one for one in busy if one.msg_rate == least]
        best = reduce(lambda one, other: other if other.is_before(one) else one, busy)
        equal = {one.broker_id: one for one in busy if not best.is_before(one)}
        return equal[rendezvous_choice(view.draw_seed, str(bundle), equal)]


def _among(what: str, busy: Sequence[Rank]) -> str:
    return f"{what} of {len(busy)}" if len(busy) > 1 else "the only one to choose from"


def _at(one: Rank) -> str:
    return f"{one.broker_id} at {one.load_percent:.1f} %"


def _choose_randomly(view: ClusterView, bundle: Bundle, ranks: Iterable[Rank], why: str) -> Choice:
    names = [one.broker_id for one in ranks]
    chosen = rendezvous_choice(view.draw_seed, str(bundle), names)
    return Choice(chosen, Reason.DRAWN, f"drawn out of {len(names)}: {why}")


def _by_weight(view: ClusterView, bundle: Bundle, ranks: list[Rank]) -> Choice:
    """Choose a random broker, weighted by capacity times the square of its free fraction."""
    weights = [one.capacity * one.free_ratio**2 for one in ranks]
    total = sum(weights)
    if total <= 0:
        return _choose_randomly(view, bundle, ranks, "all are full")
    seed = splitmix64((view.draw_seed & 0xFFFF_FFFF_FFFF_FFFF) ^ zlib.crc32(str(bundle).encode()))
    left = splitmix64(seed) / 2**64 * total
    chosen = 0
    while chosen < len(ranks) - 1 and left >= weights[chosen]:
        left -= weights[chosen]
        chosen += 1
    text = f"drawn with a chance of {weights[chosen] / total:.0%}; {_at(ranks[chosen])}"
    return Choice(ranks[chosen].broker_id, Reason.DRAWN, text)
