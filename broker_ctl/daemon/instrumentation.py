"""Connects what the floors below count to the instruments that the surface shows.

The surface follows its own parts by itself; here stands what it may not import.
"""

from collections.abc import Mapping
from typing import Any

from broker_ctl.core.session import Action
from broker_ctl.daemon.assembly import Assembly
from broker_ctl.instruments.declared import Instruments
from broker_ctl.store.cache import ValueCache

_TOLD = (
    Action.CONNECTION_LOST,
    Action.RECONNECTED,
    Action.SESSION_LOST,
    Action.SESSION_REESTABLISHED,
)


def connect(assembly: Assembly) -> None:
    """Let each instrument follow its part."""
    instruments = assembly.foundation.instruments
    _follow_session(assembly, instruments)
    _follow_nodes(assembly, instruments)
    _follow_leader(assembly, instruments)
    ownership = assembly.managers.ownership
    instruments.bundles.lost.follow(lambda: ownership.lost)


def _follow_session(assembly: Assembly, instruments: Instruments) -> None:
    session, coordination = instruments.session, assembly.coordination

    def count(action: Action) -> None:
        if action in _TOLD:
            session.events.add(action)

    def lead_epoch() -> Mapping[tuple[str, ...], float]:
        leadership = coordination.election.leadership
        return {("loadbalance",): 0.0 if leadership is None else float(leadership.epoch)}

    assembly.foundation.watcher.listen(count)
    session.lead_epoch.follow(lead_epoch)
    session.deletions_queued.follow(lambda: len(coordination.deletions))


def _follow_nodes(assembly: Assembly, instruments: Instruments) -> None:
    store, coordination, managers = instruments.store, assembly.coordination, assembly.managers
    caches: Mapping[str, ValueCache[Any]] = {
        "owners": managers.owners.cache,
        "local-policies": managers.namespaces.cache,
    }

    def corrupt() -> Mapping[tuple[str, ...], float]:
        counts = {
            "owner": managers.owners.cache.corrupt,
            "local-policies": managers.namespaces.cache.corrupt,
            "registration": coordination.registry.corrupt,
            "move": coordination.moves.corrupt,
            "load-report": assembly.controller.corrupt_reports,
        }
        return {(kind,): float(count) for kind, count in counts.items()}

    def reads() -> Mapping[tuple[str, ...], float]:
        return {
            (name, result): float(count)
            for name, cache in caches.items()
            for result, count in (("hit", cache.hits), ("miss", cache.misses))
        }

    store.corrupt_nodes.follow(corrupt)
    store.cache_reads.follow(reads)


def _follow_leader(assembly: Assembly, instruments: Instruments) -> None:
    leader, moves = instruments.leader, assembly.coordination.moves
    leader.moves_in_flight.follow(lambda: len(moves.all))
    leader.offline_bundles.follow(lambda: assembly.controller.offline_bundles)
    leader.imbalance.follow(lambda: assembly.controller.imbalance)
