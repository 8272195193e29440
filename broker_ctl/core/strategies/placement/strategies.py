"""Placement strategies: from a view to a receiver, and their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final, Protocol

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.counting import Catalog, rendezvous_choice
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import PlacementRules

# The protocol of placement strategies: from a view to a receiver.


@dataclass(frozen=True, slots=True)
class Choice:
    """The receiver of a bundle and the reason; ``broker_id`` is None if there is none."""

    broker_id: str | None
    reason: Reason
    detail: str


class PlacementPolicy(Protocol):
    """Chooses one of the feasible brokers."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose among ``candidates``, all in ``view.brokers``; ties by ``draw_seed``."""
        ...


# What a bundle that no report knows yet is expected to cause.
#
# A burst of such bundles would go to one broker if each of them counted as nothing: all choices
# would see the same usage. Pulsar counts a bundle without samples as 50 messages and 50 KB a
# second in each direction; here a broker's usage decides, so the default is a usage.


# Of a mean broker; two hundred such bundles fill one.
UNKNOWN_USAGE: Final = 0.005


def expected_usage(view: ClusterView, namespace: Namespace) -> float:
    """The mean usage of the namespace's reported bundles, and `UNKNOWN_USAGE` at least."""
    ring = view.rings.get(namespace)
    known = [
        bundle_view.load_vector.usage_ratio
        for bundle in (() if ring is None else ring.bundles)
        if (bundle_view := view.bundles.get(bundle)) is not None and bundle_view.current is not None
    ]
    return max(UNKNOWN_USAGE, fsum(known) / len(known) if known else 0.0)


# ``balance``: a bundle goes to the broker whose usage is lowest with the bundle on it.
#
# Docs: planner-sources. This is the placement half of `core.strategies.balance`, with the same
# objective. Bundles promised to a broker count as if it owned them, so that a series of choices,
# heaviest bundle first, spreads the bundles.


class BalancePlacement:
    """Chooses the broker with the lowest usage after the move; without usage, by throughput."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the broker with the lowest usage after the move; ties are broken by the seed."""
        del rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        bundle_view = view.bundles.get(bundle)
        after: dict[str, tuple[float, float]] = {}
        for broker_id in candidates:
            expected = view.brokers[broker_id].expected
            load = expected if bundle_view is None else expected + bundle_view.load_vector
            after[broker_id] = (load.usage_ratio, load.throughput_bytes)
        least = min(after.values())
        tied = [broker_id for broker_id, load in after.items() if load == least]
        chosen = rendezvous_choice(view.draw_seed, str(bundle), tied)
        detail = f"{least[0]:.1%} usage with it, {_comparison_text(len(after))}"
        return Choice(chosen, Reason.LEAST_USAGE, detail)


def _comparison_text(count: int) -> str:
    return "no other broker may take it" if count == 1 else f"the least of {count}"


# The placement half of Pulsar's AvgShedder (docs: pulsar-shedders).


class AvgShedderPlacement:
    """Chooses the destination that the shedder planned, else a random broker, as in Pulsar.

    Pulsar's class shares a map of planned destinations with the shedder. Here the view has the
    planned moves, and a `Transfer` has its destination as the only candidate.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the planned destination if it is a candidate, else a random candidate."""
        del rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        move = view.moves.get(bundle)
        if move is not None and move.destination in candidates:
            return Choice(move.destination, Reason.RESERVED, "it is planned to go there")
        chosen = rendezvous_choice(view.draw_seed, str(bundle), candidates)
        return Choice(chosen, Reason.DRAWN, f"the lot, drawn among {len(candidates)}")


# Chooses brokers in turn, regardless of load (Pulsar's RoundRobinBrokerSelector).


class RoundRobin:
    """Uses the number of the candidates' bundles as the counter; Pulsar counts its choices.

    Each choice adds a bundle, in the same view and in the next one, so the order continues after a
    change of leader without any memory.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the next broker in the order of ids."""
        del bundle, rules
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        in_order = sorted(candidates)
        turn = sum(len(view.brokers[broker_id].owned) for broker_id in in_order)
        number = turn % len(in_order)
        detail = f"the turn, {number + 1} of {len(in_order)}"
        return Choice(in_order[number], Reason.ROUND_ROBIN, detail)


# The broker with the lowest long-term message rate (docs: pulsar-placement).


class LeastLongTermMessageRate:
    """Pulsar's default up to 4.x.

    The rate includes every bundle that a broker owns or was promised, so that a burst of choices
    does not pile up on one broker. An overloaded broker is chosen only if all are overloaded, and
    then at random. The strategy compares numbers of messages: a broker with few huge messages
    looks idle, as in Pulsar.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose the broker with the lowest rate; ties are broken by the seed."""
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        rates = {
            broker_id: load.msg_rate
            for broker_id in candidates
            if (load := view.brokers[broker_id].expected).usage_ratio <= rules.overloaded_ratio
        }
        if not rates:
            detail = f"all {len(candidates)} are above {rules.overloaded_ratio:.0%}, drawn by lot"
            chosen = rendezvous_choice(view.draw_seed, str(bundle), candidates)
            return Choice(chosen, Reason.ALL_OVERLOADED, detail)
        lowest = min(rates.values())
        tied = [broker_id for broker_id, rate in rates.items() if rate == lowest]
        detail = f"{lowest:,.0f} msg/s, the lowest of {len(rates)}"
        return Choice(
            rendezvous_choice(view.draw_seed, str(bundle), tied), Reason.LEAST_MSG_RATE, detail
        )


# Chooses a broker that is clearly below the mean usage (PIP-181).
#
# Docs: pulsar-placement.


class LeastResourceUsageWithWeight:
    """Chooses at random among brokers far enough below the mean, else among all.

    Pulsar smooths each broker's usage with its past, one step per *choice*: the more lookups there
    are, the less of the past remains, and in a burst nothing. Here usage is the reported one,
    corrected for bundles that moved or were promised since, so that a burst does not pile up on
    one broker without smoothing. Pulsar's blind spot remains: of [40, 40, 40, 40, 69, 70] the mean
    is 49.8, no broker is 10 points below it, and the random choice may be 70.
    """

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose a broker below the mean by the difference; equal views give equal choices."""
        if not candidates:
            return Choice(None, Reason.NO_BROKER, "no broker is left to receive it")
        usages = {b: view.brokers[b].expected.usage_ratio for b in candidates}
        mean = fsum(usages.values()) / len(usages)
        below = [b for b, usage in usages.items() if usage + rules.usage_difference_ratio <= mean]
        chosen = rendezvous_choice(view.draw_seed, str(bundle), below or candidates)
        usage_text = f"{usages[chosen]:.1%} usage, the mean is {mean:.1%}"
        if below:
            detail = f"{usage_text}, one of {len(below)} far enough below"
            return Choice(chosen, Reason.LEAST_USAGE, detail)
        least = f"{rules.usage_difference_ratio:.0%}"
        detail = f"{usage_text}; none of {len(usages)} is {least} below, drawn by lot"
        return Choice(chosen, Reason.DRAWN, detail)


# Placement strategies by name (broker.conf: loadBalancerLoadPlacementStrategy).


PLACEMENT: Final[Catalog[PlacementPolicy]] = Catalog(
    "placement strategy",
    {
        "balance": BalancePlacement(),
        "LeastLongTermMessageRate": LeastLongTermMessageRate(),
        "LeastResourceUsageWithWeight": LeastResourceUsageWithWeight(),
        "AvgShedder": AvgShedderPlacement(),
        "RoundRobinBrokerSelector": RoundRobin(),
    },
)
