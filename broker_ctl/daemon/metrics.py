"""Binds instruments to the components of a daemon that their values are read from."""

from collections.abc import Callable, Mapping
from statistics import fmean, pstdev
from typing import Any

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.context.dependencies import OwnMoves, PlacementResult
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
from broker_ctl.coordination.directives import Directives, Moves
from broker_ctl.coordination.election import Election
from broker_ctl.core.machines.lock import LockEvent
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.core.strategies.simple import BrokerRank
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.history import bind_history
from broker_ctl.daemon.wiring.keys import bind_secrets
from broker_ctl.daemon.wiring.partitions import bind_partitions
from broker_ctl.daemon.wiring.security import bind_audit_log, bind_cluster_keys
from broker_ctl.daemon.wiring.services import Coordination
from broker_ctl.instruments.balancing import AdviceInstruments, LossInstruments
from broker_ctl.instruments.declared import (
    CacheInstruments,
    Instruments,
    SessionInstruments,
    StoreInstruments,
)
from broker_ctl.instruments.kinds import Gauge, Labels, Reading
from broker_ctl.settings.effect import differing
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.watched_cache import WatchedCache

# Binds the leader's instruments to its counts and views; on other brokers they are empty or 0.


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


# Binds the instruments of the parts that every daemon has, also beside a Pulsar cluster.


_COUNTED = (
    SessionAction.CONNECTION_LOST,
    SessionAction.RECONNECTED,
    SessionAction.SESSION_LOST,
    SessionAction.SESSION_REESTABLISHED,
)


def bind_foundation(base: Foundation, elections: Mapping[str, Election]) -> None:
    """Bind session, elections by name, stores, deletions, and background failures."""
    _bind_session(base, base.instruments.session, elections)
    _bind_stores(base, base.instruments.store)
    api, faults, addresses = base.instruments.api, base.faults, base.addresses
    api.refused_addresses.bind(
        lambda: {(source,): float(count) for source, count in addresses.refused.items()}
    )
    api.task_failures.bind(lambda: faults.failures)
    api.dead_tasks.bind(lambda: len(faults.dead))


def _bind_session(
    base: Foundation, session: SessionInstruments, elections: Mapping[str, Election]
) -> None:
    def count(action: SessionAction) -> None:
        if action in _COUNTED:
            session.events.add(action)

    def lead_epoch() -> Mapping[Labels, float]:
        leaderships = {name: election.leadership for name, election in elections.items()}
        return {
            (name,): 0.0 if leadership is None else float(leadership.epoch)
            for name, leadership in leaderships.items()
        }

    base.watcher.listen(count)
    session.lead_epoch.bind(lead_epoch)
    session.timeout_s.bind(lambda: base.store.session_timeout_s)
    deletions = base.deletions
    session.deletions_queued.bind(lambda: len(deletions))
    session.deletions_age_s.bind(lambda: deletions.age_s)
    session.deletions_given_up.bind(lambda: deletions.given_up)


def _bind_stores(base: Foundation, instruments: StoreInstruments) -> None:
    # One object if there is no separate configuration store.
    batched = {
        store.name: store
        for store in (base.metadata, base.configuration)
        if isinstance(store, BatchedStore)
    }

    def in_flight() -> Mapping[Labels, float]:
        return {
            (name, lane): float(count)
            for name, store in batched.items()
            for lane, count in store.in_flight.items()
        }

    instruments.in_flight.bind(in_flight)


def bind_corrupt(instruments: StoreInstruments, counts: Callable[[], Mapping[str, int]]) -> None:
    """Nodes that did not decode, by kind."""
    instruments.corrupt_nodes.bind(
        lambda: {(kind,): float(count) for kind, count in counts().items()}
    )


def bind_caches(instruments: CacheInstruments, caches: Mapping[str, WatchedCache[Any]]) -> None:
    """Bind the caches of the store, by name."""

    def of_each(count: Callable[[WatchedCache[Any]], int]) -> Reading:
        return lambda: {(name,): float(count(cache)) for name, cache in caches.items()}

    instruments.hits.bind(of_each(lambda cache: cache.hits))
    instruments.misses.bind(of_each(lambda cache: cache.misses))
    instruments.requests.bind(of_each(lambda cache: cache.hits + cache.misses))
    instruments.loads.bind(of_each(lambda cache: cache.loads))
    instruments.load_failures.bind(of_each(lambda cache: cache.load_failures))
    instruments.refreshes.bind(of_each(lambda cache: cache.refreshes))
    instruments.evictions.bind(of_each(lambda cache: cache.evictions))
    instruments.size.bind(of_each(len))
    instruments.invalidations.bind(of_each(lambda cache: cache.invalidations))


# Binds the instruments of a broker's daemon.
#
# The API binds the parts that it may import; this module binds all others.


_LOSSES = (LockEvent.GONE, LockEvent.OTHER, LockEvent.SESSION_ENDED)


def connect(assembly: Assembly) -> None:
    """Bind all instruments."""
    base, coordination = assembly.foundation, assembly.coordination
    instruments, partitions = base.instruments, assembly.partitions
    controlling = {} if partitions is None else {"controller": partitions.election}
    bind_foundation(base, {"loadbalance": coordination.election, **controlling})
    instruments.session.settings_differ.bind(lambda: _settings_that_differ(coordination))
    _bind_locks(assembly, instruments.session)
    bind_corrupt(instruments.store, lambda: _corrupt(assembly))
    bind_caches(
        instruments.caches,
        {
            "owners": assembly.services.owners.cache,
            "local-policies": assembly.services.namespaces.cache,
            "ring-generations": assembly.services.namespaces.generations.cache,
            "partitioned-topics": assembly.services.partitioned_topics.cache,
            **assembly.services.home.caches,
            **assembly.services.grants.caches,
            **assembly.services.partition_leaders.caches,
        },
    )
    bind_directives(instruments, coordination.directives)
    bind_leader(instruments, assembly.balancer, coordination.moves)
    bind_partitions(instruments, partitions)
    reporter, watch = assembly.services.reporter, assembly.services.dataplane_watch
    instruments.ownership.fenced.bind(lambda: watch.fenced)
    instruments.ownership.dataplane_restarts.bind(lambda: watch.restarts)
    bind_audit_log(instruments.audit, base.audit)
    bind_secrets(instruments.secrets, base.settings, base.environment.reloader)
    bind_cluster_keys(instruments.security, base.cluster_keys)
    bind_history(instruments.history, assembly.services.history)
    instruments.bundles.unlisted.bind(lambda: reporter.statistics().unlisted)


def _bind_locks(assembly: Assembly, session: SessionInstruments) -> None:
    def lost() -> Mapping[Labels, float]:
        counts = assembly.coordination.locks.lost
        return {(event.replace(" ", "_"),): float(counts[event]) for event in _LOSSES}

    session.lock_lost.bind(lost)


def _settings_that_differ(coordination: Coordination) -> int:
    reported = [each.registration.settings for each in coordination.registry.peers.values()]
    return len(
        differing(coordination.fingerprints, (each for each in reported if each is not None))
    )


def _corrupt(assembly: Assembly) -> Mapping[str, int]:
    coordination, services = assembly.coordination, assembly.services
    others = coordination.others
    return {
        **({} if others is None else {"broker": others.corrupt}),
        "owner": services.owners.cache.corrupt,
        "local-policies": services.namespaces.cache.corrupt,
        "registration": coordination.registry.corrupt,
        "move": coordination.moves.corrupt,
        "drain": coordination.directives.corrupt,
        "load-report": assembly.balancer.tally.corrupt_reports,
        "constraint": services.constraints.corrupt,
        "configuration": services.configuration.corrupt,
    }
