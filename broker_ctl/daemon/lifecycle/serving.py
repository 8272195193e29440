"""Serving: what is checked before it, what is started, and in which order it ends."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.broker.ownership.reacquire import ServingLog
from broker_ctl.coordination.membership.cluster import (
    FoundCluster,
    find_clusters,
    require_cluster_name,
)
from broker_ctl.coordination.membership.foreign_brokers import confirm_foreign_brokers
from broker_ctl.core.history.rows import ElectionName
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, NOOP
from broker_ctl.daemon.lifecycle.systemd import Notifier
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.dataplanes import require_safe_authority
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.history import recording
from broker_ctl.daemon.wiring.partitions import PartitionParts
from broker_ctl.daemon.wiring.stores import OwnStore, guarded_tree, node_access
from broker_ctl.errors import DataPlaneUnreachable, StartError, StoreError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.retry import retry
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.conditions import ACTING, STORE_OFF_LOOPBACK
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import ClusterName

log = logging.getLogger(__name__)

# Creation of a cluster by its first broker, unless the chroot looks mistyped.
#
# An empty chroot beside one that has the cluster of the same name is probably a mistake. An
# operator who intends it writes the name into the chroot first: servers do not show whether a
# chroot was created by a daemon or by hand.


_LOOK_S: Final = 10.0
# A chroot with any of these nodes has or had a cluster.
_SIGNS: Final = (paths.LOAD_REPORTS, paths.CLUSTERS, paths.POLICIES, paths.LOCAL_POLICIES)


async def refuse_mistyped_chroot(
    store: MetadataStore, servers: OwnStore, settings: Settings
) -> None:
    """Look for the cluster elsewhere on the servers if this chroot is empty.

    Raises:
        StartError: the cluster of this name is in another chroot.
    """
    url, name = settings.metadata.store_url, settings.broker.cluster_name
    if url is None or await _is_cluster(store):
        return
    others = await _look_around(servers, url)
    ours = [cluster for cluster in others if name in cluster.names]
    if ours:
        raise StartError(_explain(url, name, ours))
    here = url.chroot or "/"
    if others:
        log.warning(
            "a new cluster, %s, begins in %s, the chroot of metadataStoreUrl; the same servers "
            "have %s",
            name,
            here,
            "; ".join(map(str, others)),
        )
    else:
        log.info("a new cluster, %s, begins in %s, the chroot of metadataStoreUrl", name, here)


async def _is_cluster(store: MetadataStore) -> bool:
    if await store.exists(paths.CLUSTER_NAME) is not None:
        return True
    for sign in _SIGNS:
        if await store.children(sign):
            return True
    return False


async def _look_around(servers: OwnStore, url: StoreUrl) -> list[FoundCluster]:
    """The clusters in other chroots."""
    try:
        async with asyncio.timeout(_LOOK_S), _whole_tree(servers) as tree:
            found = [] if tree is None else await find_clusters(tree)
    except (TimeoutError, StoreError) as error:
        log.warning("cannot look for other clusters on the ZooKeeper servers: %s", error)
        return []
    return [cluster for cluster in found if cluster.chroot != url.chroot]


@asynccontextmanager
async def _whole_tree(servers: OwnStore) -> AsyncIterator[OwnStore | None]:
    tree = servers.whole_tree()
    if tree is None:
        yield None
        return
    await tree.start()
    try:
        await tree.wait_connected()
        yield tree
    finally:
        await tree.close()


def _explain(url: StoreUrl, name: str, ours: list[FoundCluster]) -> str:
    right = " or ".join(str(replace(url, chroot=cluster.chroot)) for cluster in ours)
    here = url.chroot or "/"
    return (
        f"metadataStoreUrl={url}: there is no cluster in {here}, and the cluster {name} lives "
        f"elsewhere on the same servers: {right} is that one. A second cluster takes another "
        f"clusterName, or has {ClusterName(name).encode().decode()} written to "
        f"{url.chroot}{paths.CLUSTER_NAME} before its first start"
    )


# Checks at the start and now and then that the nodes in ZooKeeper are closed to strangers.


# Parents come first, so the bound leaves out leaves of a large cluster only.
_MOST_NODES: Final = 5000
_PERIOD_S: Final = 600.0


class OpenNodeCheck:
    """Counts open nodes, and refuses servers that take writes of everybody.

    ``broker-ctl zookeeper secure`` closes open nodes.
    """

    def __init__(
        self, settings: Settings, stores: Sequence[OwnStore], instruments: StoreInstruments
    ) -> None:
        self._stores = tuple(dict.fromkeys(stores))
        self._instruments = instruments
        self._top = guarded_tree(settings)
        self._is_restricted = node_access(settings).is_restricted
        # Beside a Pulsar cluster that is only watched, no node of the daemon's matters.
        self._is_refusing = (
            STORE_OFF_LOOPBACK.holds(settings)
            and ACTING.holds(settings)
            and not settings.security.allow_open_metadata_store
        )

    async def verify(self) -> None:
        """Check all stores once.

        Raises:
            StartError: the servers take writes of everybody, and are not on this machine.
            StoreError: a store does not answer.
        """
        if not self._is_restricted:
            return
        for store in self._stores:
            await self._count(store)
            await self._refuse_strangers(store)

    async def run(self) -> None:
        """Count open nodes again and again, so that the metric follows what operators do."""
        while self._is_restricted:
            await asyncio.sleep(_PERIOD_S)
            for store in self._stores:
                try:
                    await self._count(store)
                except StoreError as error:
                    log.info("%s: cannot count open nodes: %s", store.name, error)

    async def _count(self, store: OwnStore) -> None:
        control = store.access_control(self._top)
        if control is None:
            return
        found = await control.count(_MOST_NODES)
        self._instruments.open_nodes.report(found.open, store.name)
        if found.open:
            log.warning(
                "%s: %d of %d nodes in ZooKeeper are open to everybody, such as %s; run "
                "broker-ctl zookeeper secure",
                store.name,
                found.open,
                found.nodes,
                ", ".join(found.examples),
            )
        if found.foreign:
            log.warning(
                "%s: %d nodes in ZooKeeper belong to another identity, such as %s: all daemons "
                "need the same",
                store.name,
                found.foreign,
                ", ".join(found.foreign_examples),
            )

    async def _refuse_strangers(self, store: OwnStore) -> None:
        control = store.access_control(self._top)
        if control is None:
            return
        writable = await control.anonymously_writable()
        if not writable:
            return
        found = (
            f"{store.name}: ZooKeeper lets clients without an identity write in "
            f"{', '.join(writable)}"
        )
        if self._is_refusing:
            raise StartError(
                f"{found}: run broker-ctl zookeeper secure, or set allowOpenMetadataStore=true"
            )
        log.warning("%s; run broker-ctl zookeeper secure", found)


def open_node_check(base: Foundation) -> OpenNodeCheck:
    """The check of a daemon's stores."""
    stores = (base.store, base.configuration_store)
    return OpenNodeCheck(base.settings, stores, base.instruments.store)


# The running daemon (docs: session-scope, stopping).
#
# store > session > ownership > registration > load report, election > (while leading: balancer)


_SERVING_LOOK_S: Final = 60.0


class Serving:
    """Runs one session after another, until the store is closed."""

    def __init__(self, assembly: Assembly, notifier: Notifier) -> None:
        self._base = assembly.foundation
        self._coordination = assembly.coordination
        self._services = assembly.services
        self._balancer = assembly.balancer
        self._partitions = assembly.partitions
        self._readiness = assembly.status
        self._notifier = notifier
        self._open_nodes = open_node_check(self._base)

    async def run(self) -> None:
        """Serve; returns when the store is closed.

        Raises:
            StartError: another process has this broker's id, or the cluster has foreign brokers.
        """
        base, coordination, services = self._base, self._coordination, self._services
        self._not_ready("the data plane does not answer")
        await services.dataplane_watch.start()
        if self._partitions is not None:
            await self._partitions.plane.start()
        require_safe_authority(base.settings, services.dataplane)
        self._not_ready("no connection to ZooKeeper yet")
        # Before the store starts, so that no session event is missed.
        base.watcher.listen(ServingLog(base.watcher, services.ownership.owned).on_session_action)
        base.watcher.start()
        self._balancer.start()
        await base.store.start()
        if base.configuration_store is not base.store:
            await base.configuration_store.start()
        await base.store.wait_connected()
        await base.configuration_store.wait_connected()
        if coordination.migration is not None:
            # Before anything is written.
            await coordination.migration.start()
            await coordination.migration.wait_at_rest()
        base.ticks.compare(await base.store.least_timeouts_s())
        if base.configuration_store is not base.store:
            await base.configuration_store.least_timeouts_s()
        # Watches before reads, so that no change is missed.
        await services.namespaces.start()
        await services.partitioned_topics.start()
        await services.home.start()
        await services.grants.start()
        self._not_ready("policies and configuration are being read")
        await services.configuration.start()
        await services.constraints.start()
        await coordination.registry.start()
        if coordination.others is not None:
            await coordination.others.start()
        await services.owners.start()
        await coordination.moves.start()
        await coordination.directives.start()
        await coordination.locks.start()
        if self._partitions is not None:
            await self._partitions.replicas.throttle.start()
        await base.watcher.run_epochs(self._session)

    async def _session(self, epoch: int) -> None:
        """Re-acquire owned bundles, register, and work until the session ends."""
        self._not_ready("waiting for the first committed heartbeat")
        await self._base.watcher.wait_authority()
        if epoch == 1:
            # Only the first session checks; later ones re-acquire bundles before anything else.
            checks = (
                self._refuse_mixed_cluster,
                self._require_cluster_name,
                self._open_nodes.verify,
            )
            for check in checks:
                what = "cannot check whether this daemon may join"
                await retry(check, what, rng=self._base.rng, limit_s=_SERVING_LOOK_S)
        try:
            async with self._services.ownership.session(epoch):
                while True:
                    self._not_ready("the data plane does not answer")
                    await self._services.dataplane_watch.wait_answering()
                    if self._partitions is not None:
                        await self._partitions.replicas.prepare(epoch)
                    await self._work(epoch)
        finally:
            self._coordination.registry.on_session_end()
            if self._partitions is not None:
                self._partitions.replicas.on_session_end()
            self._not_ready(f"session {epoch} has ended")

    async def _work(self, epoch: int) -> None:
        """Register and work until the data plane falls silent."""
        coordination, services = self._coordination, self._services
        self._not_ready("registering")
        if self._partitions is not None:
            # If the broker id is in use it gets no bundle: placement considers registered brokers
            # only.
            await self._partitions.replicas.ids.wait_free()
        await coordination.registry.register(await services.reporter.first())
        if services.ownership.is_draining:
            await coordination.registry.announce_drain()
        else:
            if self._partitions is not None:
                await self._partitions.replicas.enter()
            self._readiness.now = Readiness(is_ready=True)
            self._notifier.send("READY=1", f"STATUS=serving as {services.ownership.broker_id}")
        reason = ""
        keeping = coordination.registry.keep(lambda: services.reporter.current().encode())
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(keeping, name="registration")]
            working.append(group.create_task(self._open_nodes.run(), name="open nodes"))
            if self._is_balanced:
                lead = recording(services.history, ElectionName.LOAD_BALANCE, self._balancer.lead)
                working += [
                    group.create_task(services.reporter.run(), name="load report"),
                    group.create_task(coordination.election.run(lead), name="election"),
                ]
            if self._partitions is not None:
                working += self._replicate(group, self._partitions)
            try:
                await services.dataplane_watch.run()
            except DataPlaneUnreachable as silent:
                reason = f"the data plane is silent: {silent}"
                # Not an error of the group: a task group that handles an error loses a concurrent
                # cancellation, and the session may end while the election is resigned.
                for task in working:
                    task.cancel()
        log.warning("%s; releasing all bundles", reason)
        self._not_ready(reason)
        if self._partitions is not None:
            # It may still call the daemon: the lease awaited below must be the last that it gets.
            self._partitions.replicas.revoke()
        # Bundles before the registration: while it exists, other brokers see releases, not an
        # expiry, and need not wait for this broker's return (I7, I11).
        await services.ownership.release_all()
        if self._partitions is not None:
            # No other broker may lead partitions before the lease of the broker process is over.
            await self._partitions.replicas.leave()
        await coordination.registry.unregister()
        await services.ownership.restart(epoch)

    def _replicate(
        self, group: asyncio.TaskGroup, partitions: PartitionParts
    ) -> list[asyncio.Task[None]]:
        """Keep replicas, and run for controller."""
        lead = recording(
            self._services.history, ElectionName.CONTROLLER, partitions.controller.lead
        )
        return [
            group.create_task(partitions.replicas.run(), name="replicas"),
            group.create_task(partitions.election.run(lead), name="controller election"),
        ]

    @property
    def _is_balanced(self) -> bool:
        """Whether the broker runs elections and publishes reports: false with NoopLoadManager."""
        return LOAD_MANAGERS.find(self._base.settings.balancing.load_manager) is not NOOP

    async def _refuse_mixed_cluster(self) -> None:
        if self._base.settings.broker.allow_mixed_cluster:
            return
        found = await confirm_foreign_brokers(self._base.metadata)
        foreign = [broker_id for broker_id in found if broker_id != self._base.urls.broker_id]
        if foreign:
            raise StartError(
                f"{', '.join(foreign)} in /loadbalance/brokers are not broker-ctl processes, and "
                "the guarantees do not hold beside them; allowMixedCluster=true joins anyway",
            )

    async def _require_cluster_name(self) -> None:
        name = self._base.settings.broker.cluster_name
        try:
            await refuse_mistyped_chroot(self._base.lasting, self._base.store, self._base.settings)
        except StartError:
            # The container nodes above are deleted when empty, and with them the chroot.
            with suppress(StoreError):
                await self._base.control.delete(paths.lease(self._base.urls.broker_id))
            raise
        await require_cluster_name(self._base.lasting, name)

    def _not_ready(self, reason: str) -> None:
        self._readiness.now = Readiness(is_ready=False, reason=reason)
