"""Builds the parts with which brokers coordinate: registry, owners, election, moves."""

from typing import Final

from broker_ctl.coordination.locks.locks import Locks
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.membership.metadata_migration import MetadataMigration
from broker_ctl.coordination.membership.racks import PeerRacks
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.coordination.replicated.moves import Moves
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.daemon.wiring.foundation import Foundation, grouped
from broker_ctl.errors import CorruptRecord
from broker_ctl.settings.fingerprints import fingerprints
from broker_ctl.store import paths
from broker_ctl.store.across_sessions import RetryingStore
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.ownership import NamespaceEphemeralData


class Coordination:
    """The parts of this floor.

    Attributes:
        fingerprints: of this daemon's settings, as others read them.
        others: brokers other than broker-ctl's; None if the cluster may not have any.
        migration: part in a migration of their metadata; None as ``others``.
    """

    def __init__(self, base: Foundation) -> None:
        broker, tick_s = base.settings.broker, base.settings.zookeeper.tick_time_s
        lookup_urls = LookupUrls(
            broker.lookup_service_url,
            broker.lookup_service_url_tls,
            grouped(broker.lookup_listeners),
        )
        self.fingerprints: Final = fingerprints(base.settings)
        own = Registration(
            *(base.nonce, 0, base.clock.wall_ms(), base.urls),
            lookup_urls=lookup_urls,
            rack=broker.rack,
            settings=self.fingerprints,
        )
        self.registry: Final = Registry(base.control, own, base.deletions, tick_s, rng=base.rng)
        self.racks: Final = PeerRacks(self.registry)
        others = ForeignBrokers(base.metadata, rng=base.rng) if broker.allow_mixed_cluster else None
        self.others: Final = others
        self.migration: Final = (
            MetadataMigration(base.store, base.gate, base.watcher, rng=base.rng)
            if base.gate is not None
            else None
        )
        self.moves: Final = Moves(base.control, rng=base.rng)
        self.directives: Final = Directives(RetryingStore(base.control), rng=base.rng)
        self.locks: Final = Locks(
            base.metadata,
            paths.OWNERSHIP,
            broker_id=base.urls.broker_id,
            broker_of=_broker_of,
            rng=base.rng,
            on_verified=base.instruments.session.revalidation_s.observe,
        )
        base.watcher.listen(self.locks.on_session_action)
        self.election: Final = base.build_election(paths.LOADBALANCE_ELECTION)
        self.cluster: Final = LiveCluster(
            self.registry, self.election, base.watcher, others, base.addresses
        )


def _broker_of(node: Versioned) -> str | None:
    try:
        return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
    except CorruptRecord:
        return None
