"""Binds the instruments of the parts that every daemon has, also beside a Pulsar cluster."""

from collections.abc import Callable, Mapping
from typing import Any

from broker_ctl.coordination.election.election import Election
from broker_ctl.core.machines.session import Action
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.instruments.declared import CacheInstruments, SessionInstruments, StoreInstruments
from broker_ctl.instruments.kinds import Labels, Reading
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.caches.watched import WatchedCache

_COUNTED = (
    Action.CONNECTION_LOST,
    Action.RECONNECTED,
    Action.SESSION_LOST,
    Action.SESSION_REESTABLISHED,
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
    def count(action: Action) -> None:
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
