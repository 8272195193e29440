"""Figures of the current term, for metrics."""

from collections import Counter
from collections.abc import Mapping

from broker_ctl.balancer.context.dependencies import BalancerCounters
from broker_ctl.balancer.planning.orphans import orphans_of
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.imbalance import imbalance
from broker_ctl.core.planning.size import SizeAdvice, advise_size, usage_after_loss
from broker_ctl.core.strategies.placement.filters import cap_violations, is_cluster_full
from broker_ctl.core.strategies.simple import BrokerRank, SimplePlacement, broker_rank


def tally(term: LeaderTerm) -> BalancerCounters:
    """The counters of a term."""
    placed = term.placements.log
    return BalancerCounters(
        term.load_monitor.corrupt,
        term.recorder.relieved_brokers,
        Counter(placed.results),
        placed.newest_s,
    )


def offline_bundles(term: LeaderTerm) -> int:
    """Bundles with traffic and without an owner in the last view, which the leader is to place."""
    view = term.snapshot_builder.latest
    if view is None:
        return 0
    return sum(1 for _ in orphans_of(view, term.memory, term.dependencies))


def unevenness(term: LeaderTerm) -> Mapping[str, float]:
    """Max over mean of the brokers by what; empty before the first view, or without load."""
    view = term.snapshot_builder.latest
    if view is None:
        return {}
    uneven = imbalance(view)
    found = {"usage": uneven.usage, "throughput": uneven.throughput}
    return {name: value for name, value in found.items() if value is not None}


def brokers_over_limits(term: LeaderTerm) -> int:
    """Brokers of the last view that exceed one of their limits."""
    view, limits = term.snapshot_builder.latest, term.dependencies.rules().placement_rules.limits
    if view is None or not limits:
        return 0
    return sum(
        limits.of(broker.broker_id).excess(broker.held) is not None
        for broker in view.brokers.values()
    )


def is_full(term: LeaderTerm) -> bool:
    """Whether every broker of the last view that could receive is beyond a limit."""
    view, rules = term.snapshot_builder.latest, term.dependencies.rules()
    return view is not None and is_cluster_full(view, rules.placement_rules.limits)


def topic_spread_violations(term: LeaderTerm) -> int:
    """Topics, by broker, with more partitions there than the cap."""
    view, rules = term.snapshot_builder.latest, term.dependencies.rules()
    if view is None:
        return 0
    return sum(1 for _ in cap_violations(view, rules.placement_rules.topic_cap))


def size_advice(term: LeaderTerm, growth_ratio: float = 0.0) -> SizeAdvice | None:
    """How many brokers the last view needs; None before it, and where no broker says its size."""
    view, rules = term.snapshot_builder.latest, term.dependencies.rules()
    if view is None:
        return None
    return advise_size(view, rules.shedding_rules.balance, growth_ratio)


def usage_after_losses(term: LeaderTerm) -> Mapping[str, float]:
    """By what is lost, the usage of the last view's brokers after its loss, at best."""
    view, rules = term.snapshot_builder.latest, term.dependencies.rules()
    return {} if view is None else usage_after_loss(view, rules.shedding_rules.balance)


def report_ages_s(term: LeaderTerm) -> Mapping[str, float]:
    """By broker, the time since its newest report came in; a report goes with its broker."""
    now_s = term.dependencies.clock.now_s()
    return {
        broker_id: now_s - report.received_s
        for broker_id, report in term.load_monitor.reports.items()
    }


def standings(term: LeaderTerm) -> Mapping[str, BrokerRank]:
    """By broker of the last view, how it ranks; nothing unless the Simple manager places."""
    view, placement = term.snapshot_builder.latest, term.dependencies.rules().placement
    if view is None or not isinstance(placement, SimplePlacement):
        return {}
    return {broker_id: broker_rank(broker, placement) for broker_id, broker in view.brokers.items()}
