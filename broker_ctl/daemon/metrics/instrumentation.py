"""Binds the instruments of a broker's daemon.

The API binds the parts that it may import; this module binds all others.
"""

from collections.abc import Mapping

from broker_ctl.core.machines.lock import Event as LockEvent
from broker_ctl.daemon.metrics.balancing import bind_directives, bind_leader
from broker_ctl.daemon.metrics.foundation import bind_caches, bind_corrupt, bind_foundation
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.coordination import Coordination
from broker_ctl.daemon.wiring.history import bind_history
from broker_ctl.daemon.wiring.partitions import bind_partitions
from broker_ctl.daemon.wiring.security.audit import bind_audit_log
from broker_ctl.daemon.wiring.security.cluster_keys import bind_cluster_keys
from broker_ctl.daemon.wiring.security.rotation import bind_secrets
from broker_ctl.instruments.declared import SessionInstruments
from broker_ctl.instruments.kinds import Labels
from broker_ctl.settings.fingerprints import differing

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
