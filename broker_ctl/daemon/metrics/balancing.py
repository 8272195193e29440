"""Binds the leader's instruments to its counts and views; on other brokers they are empty or 0."""

from collections.abc import Callable, Mapping
from statistics import fmean, pstdev

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.context.counters import PlacementResult
from broker_ctl.balancer.context.own_moves import OwnMoves
from broker_ctl.balancer.statistics import (
    brokers_over_limits,
    is_full,
    offline_bundles,
    report_ages_s,
    size_advice,
    standings,
    topic_spread_violations,
    unevenness,
    usage_after_losses,
)
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.coordination.replicated.moves import Moves
from broker_ctl.core.strategies.simple.broker_rank import BrokerRank
from broker_ctl.instruments.balancing import AdviceInstruments, LossInstruments
from broker_ctl.instruments.declared import Instruments
from broker_ctl.instruments.kinds import Gauge, Labels


def bind_directives(instruments: Instruments, directives: Directives) -> None:
    """Bind the instruments of operators' directives, which every broker caches."""
    leader = instruments.leader
    leader.is_paused.bind(lambda: directives.pause is not None)
    leader.drained_brokers.bind(lambda: len(directives.drains))


def bind_leader(instruments: Instruments, balancer: LoadBalancer, moves: Moves | OwnMoves) -> None:
    """Bind each instrument to what it measures."""
    leader, totals = instruments.leader, instruments.totals

    def ages() -> Mapping[Labels, float]:
        term = balancer.term
        if term is None:
            return {}
        return {(broker_id,): age_s for broker_id, age_s in report_ages_s(term).items()}

    def uneven() -> Mapping[Labels, float]:
        term = balancer.term
        found = {} if term is None else unevenness(term)
        return {(what,): ratio for what, ratio in found.items()}

    def assignments() -> tuple[int, list[float]]:
        tally = balancer.tally
        return tally.placements.total(), [took_s * 1000 for took_s in tally.placement_s]

    def results() -> Mapping[Labels, float]:
        placements = balancer.tally.placements
        return {(result,): placements[result] for result in PlacementResult}

    def averages() -> Mapping[Labels, float]:
        known = balancer.usage_averages
        return {(broker_id, "max_ema"): usage_ratio for broker_id, usage_ratio in known.items()}

    def deviation() -> Mapping[Labels, float]:
        known = balancer.usage_averages.values()
        if not known:
            return {}
        return {("max_ema", "avg"): fmean(known), ("max_ema", "std"): pstdev(known)}

    instruments.bundles.resource_usage.bind(averages)
    leader.usage_stats.bind(deviation)
    leader.moves_in_flight.bind(lambda: len(moves.all))
    leader.imbalance.bind(uneven)
    leader.report_age_s.bind(ages)
    leader.assignment_ms.bind(assignments)
    totals.unload_brokers.bind(lambda: balancer.tally.relieved_brokers)
    totals.assignments.bind(results)
    _bind_advice(instruments.advice, balancer)
    _bind_losses(instruments.losses, balancer)
    _bind_ranks(instruments, balancer)


def _bind_advice(advice: AdviceInstruments, balancer: LoadBalancer) -> None:
    def misplaced() -> float:
        term = balancer.term
        return 0 if term is None else len(term.snapshot_builder.misplaced)

    def over_limits() -> float:
        term = balancer.term
        return 0 if term is None else brokers_over_limits(term)

    def hot() -> float:
        term = balancer.term
        return 0 if term is None else len(term.snapshot_builder.hot_topics)

    def full() -> float:
        term = balancer.term
        return 0 if term is None else is_full(term)

    def too_many_partitions() -> float:
        term = balancer.term
        return 0 if term is None else topic_spread_violations(term)

    def recommended() -> float:
        term = balancer.term
        size = None if term is None else size_advice(term)
        return 0 if size is None else size.recommended

    def after_loss() -> Mapping[Labels, float]:
        term = balancer.term
        found = {} if term is None else usage_after_losses(term)
        return {(lost,): usage for lost, usage in found.items()}

    advice.misplaced_bundles.bind(misplaced)
    advice.brokers_over_limits.bind(over_limits)
    advice.hot_topic_bundles.bind(hot)
    advice.is_full.bind(full)
    advice.topic_spread_violations.bind(too_many_partitions)
    advice.recommended_brokers.bind(recommended)
    advice.usage_after_loss.bind(after_loss)


def _bind_losses(losses: LossInstruments, balancer: LoadBalancer) -> None:
    def offline() -> float:
        term = balancer.term
        return 0 if term is None else offline_bundles(term)

    def offline_eta_s() -> float:
        term = balancer.term
        eta_s = 0.0 if term is None else term.orphan_progress.eta_s
        return -1.0 if eta_s is None else eta_s

    losses.offline_bundles.bind(offline)
    losses.offline_bundles_eta_s.bind(offline_eta_s)
    losses.lost_brokers.bind(
        lambda: len(balancer.absence_monitor.lost()) if balancer.is_leading else 0
    )


def _bind_ranks(instruments: Instruments, balancer: LoadBalancer) -> None:
    def show(gauge: Gauge, number: Callable[[BrokerRank], float]) -> None:
        def of_each() -> Mapping[Labels, float]:
            term = balancer.term
            found = {} if term is None else standings(term)
            return {(broker_id,): number(one) for broker_id, one in found.items()}

        gauge.bind(of_each)

    simple = instruments.simple
    show(simple.load_rank, lambda one: one.load_rank)
    show(simple.quota_cpu, lambda one: one.needed.cpu_percent)
    show(simple.quota_memory, lambda one: one.needed.memory_percent)
    show(simple.quota_bandwidth_in, lambda one: one.needed.bandwidth_in_percent)
    show(simple.quota_bandwidth_out, lambda one: one.needed.bandwidth_out_percent)
