"""What a leading can tell of itself at this moment, for metrics."""

from collections import Counter
from collections.abc import Mapping

from broker_ctl.balancer.context.counters import BalancerCounters
from broker_ctl.balancer.planning.orphans import orphans_of
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.imbalance import imbalance
from broker_ctl.core.strategies.simple.placement import SimplePlacement
from broker_ctl.core.strategies.simple.standing import Standing, standing


def tally(leading: LeaderTerm) -> BalancerCounters:
    """What it has come to so far."""
    placed = leading.placements.log
    return BalancerCounters(
        leading.board.corrupt,
        leading.outcomes.relieved_brokers,
        Counter(placed.results),
        placed.newest_s,
    )


def offline_bundles(leading: LeaderTerm) -> int:
    """Bundles with traffic that nobody owned at the last look, and that the leader is to place."""
    view = leading.survey.latest
    if view is None:
        return 0
    return sum(1 for _ in orphans_of(view, leading.memory, leading.parts))


def unevenness(leading: LeaderTerm) -> Mapping[str, float]:
    """Max over mean of the brokers by what; nothing before the first look, or without load."""
    view = leading.survey.latest
    if view is None:
        return {}
    uneven = imbalance(view)
    found = {"usage": uneven.usage, "throughput": uneven.throughput}
    return {name: value for name, value in found.items() if value is not None}


def report_ages_s(leading: LeaderTerm) -> Mapping[str, float]:
    """By broker, the time since its newest report came in; a report goes with its broker."""
    now_s = leading.parts.clock.now_s()
    return {
        broker_id: now_s - report.received_s for broker_id, report in leading.board.reports.items()
    }


def standings(leading: LeaderTerm) -> Mapping[str, Standing]:
    """By broker of the last view, how it ranks; nothing unless the Simple manager places."""
    view, placement = leading.survey.latest, leading.parts.rules().placement
    if view is None or not isinstance(placement, SimplePlacement):
        return {}
    return {broker_id: standing(broker, placement) for broker_id, broker in view.brokers.items()}
