"""Merges the proposals of all policies into one plan, within budgets and limits."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any, Final, Self, assert_never

from broker_ctl.core.cluster.decisions import (
    Action,
    Assign,
    Decision,
    Merge,
    Reason,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.cluster.imbalance import Imbalance, imbalance, imbalance_text, is_worth_it
from broker_ctl.core.cluster.view import ClusterView, rest_text, room_text
from broker_ctl.core.model.load import throughput_text
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.planning.invariants import check
from broker_ctl.core.planning.order import PlanOrder
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult
from broker_ctl.core.strategies.placement.pipeline import (
    alternative_receivers,
    filter_brokers,
    place,
)
from broker_ctl.core.strategies.placement.strategies import PlacementPolicy

# Ledger of the budgets: what moves in flight and planned moves have left of them.


_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """Spent and allowed. A move in flight counts for both brokers.

    For the hour only moves that the balancer chose count.

    Attributes:
        budgets: the limits.
        per_broker: moves in flight by broker.
        per_namespace: moves in flight by namespace.
        moves: moves in flight.
        moved_bytes: bytes/s moved in the last hour.
        cluster_bytes: bytes/s of the whole cluster.
    """

    budgets: Budgets
    per_broker: Counter[str]
    per_namespace: Counter[Namespace]
    moves: int
    moved_bytes: float
    cluster_bytes: float

    @classmethod
    def of(cls, view: ClusterView, budgets: Budgets) -> Self:
        """The ledger before anything is planned."""
        moves = view.moves.values()
        settled = (
            past.throughput_bytes for past in view.settled if view.taken_at_s - past.at_s < _HOUR_S
        )
        in_flight = (
            view.bundles[move.bundle].load_vector.throughput_bytes
            for move in moves
            if move.is_own and move.bundle in view.bundles
        )
        return cls(
            budgets=budgets,
            per_broker=Counter(end for move in moves for end in (move.source, move.destination)),
            per_namespace=Counter(move.bundle.namespace for move in moves),
            moves=len(moves),
            moved_bytes=fsum((*settled, *in_flight)),
            cluster_bytes=fsum(b.expected.throughput_bytes for b in view.brokers.values()),
        )

    def after(self, transfer: Transfer) -> "Ledger":
        """The ledger with one more move in flight."""
        return replace(
            self,
            per_broker=self.per_broker + Counter((transfer.source, transfer.destination)),
            per_namespace=self.per_namespace + Counter((transfer.bundle.namespace,)),
            moves=self.moves + 1,
            moved_bytes=self.moved_bytes
            + transfer.load_vector.throughput_bytes * transfer.reason.is_own,
        )

    def has_room(self, broker_id: str) -> bool:
        """Return whether the broker may take part in one more move."""
        return self.per_broker[broker_id] < self.budgets.max_moves_per_broker

    def refusal(
        self, view: ClusterView, bundle: Bundle, source: str, why: Reason
    ) -> tuple[Reason, str] | None:
        """Why the bundle may not leave its broker, regardless of the destination.

        A drain must come to an end: only the limits of moves in flight apply to it.
        """
        budgets, namespace = self.budgets, bundle.namespace
        if self.moves >= budgets.max_moves:
            text = f"{self.moves} of {budgets.max_moves} moves are in flight, the most"
            return Reason.BUDGET_CLUSTER, f"{text} (loadBalancerMaxMovesInFlight), until one ends"
        if not self.has_room(source):
            limit = budgets.max_moves_per_broker
            return Reason.BUDGET_BROKER, most_moves_text(source, limit)
        if why.is_drain:
            return None
        size = len(view.rings[namespace].bundles)
        limit = max(1, int(size * budgets.namespace_ratio))
        if self.per_namespace[namespace] >= limit:
            text = f"{limit} of {size} bundles of {namespace} are moving, the most at a time"
            return (
                Reason.BUDGET_NAMESPACE,
                f"{text} ({budgets.namespace_ratio:.0%}), until one ends",
            )
        if not why.is_own:
            return None
        return self._cooling(view, bundle) or self._hourly(view, bundle)

    def _cooling(self, view: ClusterView, bundle: Bundle) -> tuple[Reason, str] | None:
        unloaded_s = view.bundles[bundle].last_unloaded_s
        if unloaded_s is None or view.taken_at_s - unloaded_s >= self.budgets.cool_down_s:
            return None
        return Reason.COOLING_DOWN, rest_text(view, unloaded_s + self.budgets.cool_down_s)

    def _hourly(self, view: ClusterView, bundle: Bundle) -> tuple[Reason, str] | None:
        allowed_bytes = self.cluster_bytes * self.budgets.hourly_load_ratio
        wanted_bytes = self.moved_bytes + view.bundles[bundle].load_vector.throughput_bytes
        if self.moved_bytes <= 0 or wanted_bytes <= allowed_bytes:
            return None
        return Reason.BUDGET_HOURLY_LOAD, (
            f"{throughput_text(wanted_bytes)} would have moved within the hour, "
            f"{throughput_text(allowed_bytes)} may (loadBalancerMaxLoadMovedPerHourPercentage), "
            + room_text(view, wanted_bytes - allowed_bytes)
        )


def most_moves_text(who: str, limit: int) -> str:
    """Why brokers take part in no further move."""
    return (
        f"{who} takes part in {limit} moves, the most "
        "(loadBalancerMaxMovesInFlightPerBroker), until one ends"
    )


# Merges the proposals of all policies into one plan.
#
# Proposals are taken one after another, each on the view that results from the earlier ones:
# splits first (a split bundle does not move), then moves, those of the hottest broker first. A
# move gets its receiver here, from placement, and keeps it: nothing is left to the next lookup. A
# proposal that the plan drops becomes a `Skip` with its reason. The result is a function of the
# arguments alone, independent of the order of the proposals.


_UNDER_WAY: Final = "a move or a split of it is under way, until that ends"
_ORDER = (Skip, Assign, Split, Merge, Transfer, Unload)


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of one cycle, in order, and the proposals that it drops.

    Attributes:
        epoch: leader epoch of the view; the executor repeats it with every write.
        decisions: decisions to execute: Assign, Transfer, Split or Merge.
        skipped: dropped proposals, with reasons.
        before: imbalance of the view.
        after: imbalance after all decisions.
        order: which moves wait for which.
    """

    epoch: int
    decisions: tuple[Action, ...]
    skipped: tuple[Skip, ...]
    before: Imbalance
    after: Imbalance
    order: PlanOrder = field(default_factory=PlanOrder)

    @property
    def sentence(self) -> str:
        """One log line."""
        counts = Counter(decision.kind for decision in (*self.decisions, *self.skipped))
        what = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "nothing"
        usage, throughput = (
            f"{imbalance_text(before)} -> {imbalance_text(after)}"
            for before, after in (
                (self.before.usage, self.after.usage),
                (self.before.throughput, self.after.throughput),
            )
        )
        return (
            f"plan of epoch {self.epoch}: {what}; max over mean usage "
            f"{usage}, throughput {throughput}"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "epoch": self.epoch,
            "sentence": self.sentence,
            "decisions": [decision.to_row() for decision in self.decisions],
            "skipped": [skip.to_row() for skip in self.skipped],
            "usage_imbalance_before": self.before.usage,
            "usage_imbalance_after": self.after.usage,
            "throughput_imbalance_before": self.before.throughput,
            "throughput_imbalance_after": self.after.throughput,
            "order": self.order.to_row(),
        }


def plan(
    view: ClusterView,
    proposals: Iterable[Decision],
    *,
    placement: PlacementPolicy,
    placement_rules: PlacementRules,
    budgets: Budgets,
) -> Plan:
    """Merge proposals under the budgets.

    Raises:
        InvariantBroken: the result would violate an invariant, by a fault of a policy; nothing of
            the plan may be executed.
    """
    now, ledger = view, Ledger.of(view, budgets)
    decisions: list[Action] = []
    skipped: list[Skip] = []
    claimed: dict[Bundle, Action] = {}
    ranked = sorted(proposals, key=lambda each: _rank(view, each))
    for proposal in ranked:
        outcome = _taken(now, proposal, claimed)
        if isinstance(outcome, Unload | Transfer):
            outcome = _routed(now, ledger, outcome, placement, placement_rules)
        elif isinstance(outcome, Assign):
            outcome = _received(now, outcome, placement_rules)
        if isinstance(outcome, Skip):
            skipped.append(outcome)
            continue
        decisions.append(outcome)
        claimed.update(dict.fromkeys(outcome.bundles, outcome))
        now = now.after(outcome)
        if isinstance(outcome, Transfer):
            ledger = ledger.after(outcome)
    check(view, decisions, now)
    return Plan(view.epoch, tuple(decisions), tuple(skipped), imbalance(view), imbalance(now))


def _rank(view: ClusterView, proposal: Decision) -> tuple[object, ...]:
    """A total order: by kind, then the hottest source's, then the heaviest bundle."""
    giver = view.brokers.get(_giver(proposal) or "")
    heat = giver.expected.usage_ratio if giver else 0.0
    weights = [
        view.bundles[bundle].load_vector.throughput_bytes
        for bundle in proposal.bundles
        if bundle in view.bundles
    ]
    return _ORDER.index(type(proposal)), -heat, -sum(weights), proposal.sentence


def _giver(proposal: Decision) -> str | None:
    """The broker that must own the bundles of the proposal."""
    match proposal:
        case Unload() | Transfer():
            return proposal.source
        case Split() | Merge():
            return proposal.owner
        case Assign() | Skip():
            return None
    assert_never(proposal)


def _taken(now: ClusterView, proposal: Decision, claimed: dict[Bundle, Action]) -> Decision:
    """The proposal, or a `Skip` if its bundles are not available."""
    for bundle in proposal.bundles:
        if bundle in claimed:
            text = f"a {claimed[bundle].kind} of it is planned, until that ends"
            return Skip(str(bundle), Reason.SUPERSEDED, text)
        if now.is_busy(bundle):
            return Skip(str(bundle), Reason.MOVING, _UNDER_WAY)
        if bundle not in now.bundles or not now.is_in_ring(bundle):
            return Skip(str(bundle), Reason.GONE, "it is not a bundle of its namespace any more")
        bundle_view = now.bundles[bundle]
        owner = bundle_view.owner
        if owner != _giver(proposal) or (owner is not None and owner not in now.brokers):
            text = (
                f"its owner is {owner or 'nobody'}, alive are {len(now.brokers)} brokers, until "
                "the next cycle"
            )
            return Skip(str(bundle), Reason.NOT_OWNED, text)
        if bundle_view.is_pinned and owner is not None:
            return Skip(str(bundle), Reason.PINNED, f"it belongs to {owner} for good")
    return proposal


def _received(now: ClusterView, assign: Assign, rules: PlacementRules) -> Assign | Skip:
    able = now.receivers(rules.report_ttl_s)
    allowed = filter_brokers(now, assign.bundle, able, rules).for_broker(assign.destination)
    if allowed.feasible:
        return assign
    text = allowed.explain(f"{assign.destination} cannot receive")
    return Skip(str(assign.bundle), allowed.reason, text)


def _others(now: ClusterView, proposal: Unload | Transfer, rules: PlacementRules) -> FilterResult:
    """The brokers that may receive; what must leave also leaves where its group would keep it.

    Placement still prefers brokers without bundles of the group.
    """
    bundle, source = proposal.bundle, proposal.source
    if proposal.reason.must_leave:
        return filter_brokers(now, bundle, now.receivers(rules.report_ttl_s, source), rules)
    return alternative_receivers(now, bundle, source, rules)


def _routed(
    now: ClusterView,
    ledger: Ledger,
    proposal: Unload | Transfer,
    placement: PlacementPolicy,
    rules: PlacementRules,
) -> Transfer | Skip:
    """The move with its receiver, or why there is none."""
    bundle, source = proposal.bundle, proposal.source
    refusal = ledger.refusal(now, bundle, source, proposal.reason)
    if refusal:
        return Skip(str(bundle), *refusal)
    others = _others(now, proposal, rules)
    if isinstance(proposal, Transfer):
        others = others.for_broker(proposal.destination)
    able = others.feasible
    if not able:
        text = f"nobody can receive it from {source}"
        return Skip(str(bundle), others.reason, others.explain(text))
    roomy = [broker_id for broker_id in able if ledger.has_room(broker_id)]
    if not roomy:
        limit = ledger.budgets.max_moves_per_broker
        text = most_moves_text(f"each of {len(able)} receivers", limit)
        return Skip(str(bundle), Reason.BUDGET_BROKER, text)
    moved, giver = now.bundles[bundle].load_vector, now.brokers[source].expected
    better = [
        broker_id
        for broker_id in roomy
        if is_worth_it(proposal.reason, giver, now.brokers[broker_id].expected, moved)
    ]
    if not better:
        text = f"it would only carry the load of {source} elsewhere, until loads change"
        return Skip(str(bundle), Reason.NO_GAIN, text)
    choice = place(now, bundle, better, placement, rules)
    if choice.broker_id is None:
        return Skip(str(bundle), choice.reason, choice.detail)
    # A policy that names the receiver has compared it with the others already.
    has = choice.detail if isinstance(proposal, Unload) else "room for it, as planned"
    return Transfer(
        bundle=bundle,
        source=source,
        destination=choice.broker_id,
        reason=proposal.reason,
        detail=f"{proposal.detail}; {choice.broker_id} has {has}",
        load_vector=moved,
        source_before=giver,
        destination_before=now.brokers[choice.broker_id].expected,
    )
