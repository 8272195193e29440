"""Decisions for brokers that are beyond their limits, or beyond a topic's cap."""

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.rules import SheddingRules
from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.placement.broken_limits import broken_limits, is_cluster_full


def limit_moves(
    view: ClusterView, memory: BalanceMemory, rules: SheddingRules, ineligible: frozenset[str]
) -> list[Decision]:
    """Moves that bring brokers back within limits and caps; a skip for each that has no way.

    Where all brokers are beyond their limits nothing moves: it would change whose limit is broken.
    """
    balance = rules.balance
    reasons = broken_limits(view, balance.limits, balance.topic_cap)
    if not reasons or is_cluster_full(view, balance.limits):
        return []
    from broker_ctl.core.strategies.balance.limits.hard_relief import relieve_hard
    from broker_ctl.core.strategies.balance.planner_input import PlannerContext, build_input

    context = PlannerContext(
        memory.demands.steady_of,
        memory.left,
        rules.report_ttl_s,
        rules.excluded_namespaces,
        ineligible,
    )
    found = build_input(view, context, balance)
    relief = relieve_hard(found.problem, balance.band, balance.most_moves)
    decisions: list[Decision] = []
    for move in relief.moves:
        bundle_view = found.bundles[move.bundle]
        source = view.brokers[found.brokers[move.source]]
        destination = view.brokers[found.brokers[move.destination]]
        reason, text = reasons.get(source.broker_id, (Reason.CAPACITY, ""))
        decisions.append(
            Transfer(
                bundle=bundle_view.bundle,
                source=source.broker_id,
                destination=destination.broker_id,
                reason=reason,
                detail=f"{source.broker_id} has {text}",
                load_vector=bundle_view.load_vector,
                source_before=source.expected,
                destination_before=destination.expected,
            )
        )
    for broker in relief.stuck:
        reason, text = reasons.get(found.brokers[broker], (Reason.CAPACITY, ""))
        words = f"{text}, until another broker has room for what it would give"
        decisions.append(Skip(found.brokers[broker], reason, words))
    return decisions
