"""The operations on the bundles of this broker, composed."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.acquire import Acquirer
from broker_ctl.broker.ownership.held_bundles import OwnedBundles, OwnershipChange
from broker_ctl.broker.ownership.merge import Merger
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.reacquire import BulkReacquirer
from broker_ctl.broker.ownership.reclaim import Reclaim
from broker_ctl.broker.ownership.release import Releaser
from broker_ctl.broker.ownership.ring_change import RingChanger
from broker_ctl.broker.ownership.split import Splitter
from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.coordination.locks.locks import Locks
from broker_ctl.coordination.locks.pending_deletions import Deletions
from broker_ctl.coordination.replicated.moves import Moves
from broker_ctl.coordination.session.watcher import SessionWatcher
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.rules.rules import SplitRules
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.instruments.balancing import OwnershipInstruments
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.ownership import NamespaceEphemeralData


@dataclass(frozen=True, slots=True)
class OwnershipDependencies:
    """The parts that ownership depends on; for ``is_preloading`` see `BulkReacquirer`.

    ``split_rules`` is called at each split by traffic, because the rules may change at run time.
    """

    store: MetadataStore
    watcher: SessionWatcher
    locks: Locks
    namespaces: Namespaces
    owners: Owners
    moves: Moves
    deletions: Deletions
    dataplane: DataPlane
    rng: random.Random
    is_preloading: bool = True
    split_rules: Callable[[], SplitRules] = SplitRules
    on_owner_change: Callable[[OwnershipChange], None] | None = None
    instruments: OwnershipInstruments = field(default_factory=OwnershipInstruments)


@dataclass(frozen=True, slots=True)
class BundleOperations:
    """All operations on the bundles of this broker; they share one `OwnedBundles`."""

    releaser: Releaser
    acquirer: Acquirer
    splitter: Splitter
    merger: Merger
    reclaim: Reclaim

    @classmethod
    def of(
        cls,
        dependencies: OwnershipDependencies,
        urls: BrokerUrls,
        bundles: OwnedBundles,
        on_lost: Callable[[Lock], None],
    ) -> Self:
        """Build the operations; ``on_lost`` gets the lock of an owner node that was deleted."""
        record = NamespaceEphemeralData(urls)
        releaser = _releaser(dependencies, bundles)
        acquirer = Acquirer(
            owned_bundles=bundles,
            watcher=dependencies.watcher,
            locks=dependencies.locks,
            namespaces=dependencies.namespaces,
            owners=dependencies.owners,
            dataplane=dependencies.dataplane,
            releaser=releaser,
            record=record,
            on_lost=on_lost,
        )
        changer = RingChanger(
            store=dependencies.store,
            owned_bundles=bundles,
            watcher=dependencies.watcher,
            locks=dependencies.locks,
            namespaces=dependencies.namespaces,
            owners=dependencies.owners,
            dataplane=dependencies.dataplane,
            releaser=releaser,
            record=record,
            on_lost=on_lost,
            rng=dependencies.rng,
        )
        splitter = Splitter(
            owned_bundles=bundles,
            dataplane=dependencies.dataplane,
            changer=changer,
            rules=dependencies.split_rules,
        )
        merger = Merger(owned_bundles=bundles, dataplane=dependencies.dataplane, changer=changer)
        reclaim = _reclaim(dependencies, bundles, acquirer, releaser)
        return cls(releaser, acquirer, splitter, merger, reclaim)


def _releaser(dependencies: OwnershipDependencies, bundles: OwnedBundles) -> Releaser:
    return Releaser(
        owned_bundles=bundles,
        locks=dependencies.locks,
        owners=dependencies.owners,
        deletions=dependencies.deletions,
        dataplane=dependencies.dataplane,
        instruments=dependencies.instruments,
        rng=dependencies.rng,
    )


def _reclaim(
    dependencies: OwnershipDependencies,
    bundles: OwnedBundles,
    acquirer: Acquirer,
    releaser: Releaser,
) -> Reclaim:
    reacquirer = BulkReacquirer(
        store=dependencies.store,
        watcher=dependencies.watcher,
        locks=dependencies.locks,
        namespaces=dependencies.namespaces,
        acquirer=acquirer,
        releaser=releaser,
        dataplane=dependencies.dataplane,
        rng=dependencies.rng,
        is_preloading=dependencies.is_preloading,
    )
    return Reclaim(
        store=dependencies.store,
        owned_bundles=bundles,
        namespaces=dependencies.namespaces,
        reacquirer=reacquirer,
        dataplane=dependencies.dataplane,
        instruments=dependencies.instruments,
        rng=dependencies.rng,
    )
