"""Connects what the floors below count to the instruments that the surface shows.

The surface follows its own parts by itself; here stands what it may not import.
"""

from collections.abc import Callable, Mapping
from typing import Any

from broker_ctl.core.lock import Event as LockEvent
from broker_ctl.core.session import Action
from broker_ctl.daemon.assembly import Assembly
from broker_ctl.daemon.balancing_metrics import follow_directives, follow_leader
from broker_ctl.daemon.capturing import follow_history
from broker_ctl.daemon.partitions import follow_partitions
from broker_ctl.instruments.declared import CacheInstruments, Instruments, StoreInstruments
from broker_ctl.instruments.kinds import Reading
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.caches.watched import WatchedCache

_TOLD = (
    Action.CONNECTION_LOST,
    Action.RECONNECTED,
    Action.SESSION_LOST,
    Action.SESSION_REESTABLISHED,
)

_LOSSES = (LockEvent.GONE, LockEvent.OTHER, LockEvent.SESSION_ENDED)


def connect(assembly: Assembly) -> None:
    """Let each instrument follow its part."""
    instruments = assembly.foundation.instruments
    _follow_session(assembly, instruments)
    _follow_stores(assembly, instruments.store)
    _follow_nodes(assembly, instruments)
    _follow_caches(assembly, instruments.caches)
    follow_directives(instruments, assembly.coordination.directives)
    follow_leader(instruments, assembly.controller, assembly.coordination.moves)
    follow_partitions(instruments, assembly.partitions)
    ownership = assembly.managers.ownership
    instruments.bundles.lost.follow(lambda: ownership.lost)
    reporter = assembly.managers.reporter
    follow_history(instruments.history, assembly.managers.history)
    instruments.bundles.unlisted.follow(lambda: reporter.statistics().unlisted)


def _follow_session(assembly: Assembly, instruments: Instruments) -> None:
    session, coordination = instruments.session, assembly.coordination

    def count(action: Action) -> None:
        if action in _TOLD:
            session.events.add(action)

    elections = {"loadbalance": coordination.election}
    if assembly.partitions is not None:
        elections["controller"] = assembly.partitions.election

    def lead_epoch() -> Mapping[tuple[str, ...], float]:
        leaderships = {seat: election.leadership for seat, election in elections.items()}
        return {
            (seat,): 0.0 if leading is None else float(leading.epoch)
            for seat, leading in leaderships.items()
        }

    def lost() -> Mapping[tuple[str, ...], float]:
        counts = coordination.locks.lost
        return {(event.replace(" ", "_"),): float(counts[event]) for event in _LOSSES}

    assembly.foundation.watcher.listen(count)
    session.lead_epoch.follow(lead_epoch)
    session.lock_lost.follow(lost)
    deletions = assembly.foundation.deletions
    session.deletions_queued.follow(lambda: len(deletions))
    session.deletions_age_s.follow(lambda: deletions.age_s)


def _follow_stores(assembly: Assembly, instruments: StoreInstruments) -> None:
    base = assembly.foundation
    # One object where the configuration has no store of its own.
    batched = {
        store.name: store
        for store in (base.metadata, base.configuration)
        if isinstance(store, BatchedStore)
    }

    def in_flight() -> Mapping[tuple[str, ...], float]:
        return {
            (name, lane): float(count)
            for name, store in batched.items()
            for lane, count in store.in_flight.items()
        }

    instruments.in_flight.follow(in_flight)


def _follow_nodes(assembly: Assembly, instruments: Instruments) -> None:
    store, coordination, managers = instruments.store, assembly.coordination, assembly.managers

    def corrupt() -> Mapping[tuple[str, ...], float]:
        counts = {
            "owner": managers.owners.cache.corrupt,
            "local-policies": managers.namespaces.cache.corrupt,
            "registration": coordination.registry.corrupt,
            "move": coordination.moves.corrupt,
            "drain": coordination.directives.corrupt,
            "load-report": assembly.controller.tally.corrupt_reports,
            "constraint": managers.constraints.corrupt,
            "configuration": managers.configuration.corrupt,
        }
        return {(kind,): float(count) for kind, count in counts.items()}

    store.corrupt_nodes.follow(corrupt)


def _follow_caches(assembly: Assembly, instruments: CacheInstruments) -> None:
    caches: Mapping[str, WatchedCache[Any]] = {
        "owners": assembly.managers.owners.cache,
        "local-policies": assembly.managers.namespaces.cache,
        "ring-generations": assembly.managers.namespaces.generations.cache,
        "partitioned-topics": assembly.managers.partitioned_topics.cache,
        **assembly.managers.home.caches,
        **({} if assembly.partitions is None else assembly.partitions.leaders.caches),
    }

    def of_each(count: Callable[[WatchedCache[Any]], int]) -> Reading:
        return lambda: {(name,): float(count(cache)) for name, cache in caches.items()}

    instruments.hits.follow(of_each(lambda cache: cache.hits))
    instruments.misses.follow(of_each(lambda cache: cache.misses))
    instruments.requests.follow(of_each(lambda cache: cache.hits + cache.misses))
    instruments.loads.follow(of_each(lambda cache: cache.loads))
    instruments.load_failures.follow(of_each(lambda cache: cache.load_failures))
    instruments.evictions.follow(of_each(lambda cache: cache.evictions))
    instruments.size.follow(of_each(len))
    instruments.invalidations.follow(of_each(lambda cache: cache.invalidations))
