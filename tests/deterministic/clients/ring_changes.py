"""Bundles that are merged and split by leaders, and a namespace that comes and goes."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.core.model.names import Bundle, Namespace, Topic
from broker_ctl.errors import BrokerCtlError, TenantExists
from broker_ctl.store import paths
from tests.deterministic.clients.clients import TENANT, Clients
from tests.deterministic.faults.faults import Faults
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.topics import NAMESPACE

# It is deleted and made again.
PASSING: Final = Namespace("public", "passing")
_TOPICS: Final = 4
_MOST_BUNDLES: Final = 16

Step = Callable[[], Coroutine[Any, Any, None]]


class RingChanges:
    """Each is one step; those that every run has to show are counted as faults are."""

    def __init__(self, cluster: Cluster, clients: Clients, faults: Faults) -> None:
        self._cluster = cluster
        self._clients = clients
        self._faults = faults
        self._rng = cluster.draws

    def verbs(self) -> dict[Step, float]:
        """Steps with their weights."""
        return {
            self.merge_any: 2.5,
            self.split_and_unload: 1.5,
            self.create_namespace: 2,
            self.delete_namespace: 1.2,
            self.look_up_passing: 6,
        }

    def _leaders(self) -> Iterator[tuple[DaemonProcess, LoadBalancer]]:
        """Also who only thinks that it leads."""
        for daemon in self._cluster.running:
            assert daemon.dependencies is not None
            if (admin := daemon.dependencies.admin()) is not None:
                yield daemon, admin

    async def merge_any(self) -> None:
        """Two neighbours, which may have different owners."""
        leaders = list(self._leaders())
        standing = sorted(self._cluster.observer.standing)
        pairs = [pair for pair in pairwise(standing) if _are_neighbours(*pair)]
        if leaders and pairs:
            (leader, admin), (left, right) = self._rng.choice(leaders), self._rng.choice(pairs)

            async def merge() -> None:
                await admin.merge(left, right)
                self._faults.note("merge", f"{left.range} and {right.range}")

            work = leader.call(merge())
            await self._clients.ask(f"merge {left.range} and {right.range}", work)

    async def split_and_unload(self) -> None:
        """A leader splits a bundle, and moves its children to better places."""
        leaders = list(self._leaders())
        standing = sorted(self._cluster.observer.standing)
        if leaders and standing and len(standing) < _MOST_BUNDLES:
            (leader, admin), bundle = self._rng.choice(leaders), self._rng.choice(standing)

            async def split() -> None:
                await admin.split(bundle, "range_equally_divide", (), is_unloading=True)
                self._faults.note("unload after split", f"{bundle.range} by {leader.broker_id}")

            await self._clients.ask(f"split_and_unload {bundle.range}", leader.call(split()))

    # Namespaces.

    async def create_namespace(self) -> None:
        """The one that comes and goes."""
        daemon = self._clients.pick()
        if daemon is None or daemon.dependencies is None:
            return
        services, bundles = daemon.dependencies.services, self._rng.randrange(1, 5)

        async def create() -> None:
            with suppress(TenantExists):
                await services.policies.tenants.create(PASSING.tenant, TENANT)
            await services.namespaces.create(PASSING, bundles=bundles)
            self._faults.note("create namespace", f"with {bundles} bundles by {daemon.broker_id}")

        await self._clients.ask(f"create_namespace at {daemon.broker_id}", daemon.call(create()))

    async def delete_namespace(self) -> None:
        """Its bundles are unloaded first, and clients go on to look it up."""
        daemon = self._clients.pick()
        if daemon is None or daemon.dependencies is None:
            return
        services = daemon.dependencies.services

        async def delete() -> None:
            await services.namespaces.delete(PASSING)
            self._faults.note("delete namespace", daemon.broker_id)

        for owner, bundle in self._owned():
            with suppress(BrokerCtlError):
                await owner.call(owner.unload(bundle))
        await self._clients.ask(f"delete_namespace at {daemon.broker_id}", daemon.call(delete()))

    def _owned(self) -> list[tuple[DaemonProcess, Bundle]]:
        found = [
            (self._cluster.by_id[reign.broker_id], bundle)
            for bundle, reign in sorted(self._cluster.observer.standing.items())
            if bundle.namespace == PASSING
        ]
        return [(owner, bundle) for owner, bundle in found if owner in self._cluster.running]

    async def look_up_passing(self) -> None:
        """A topic of the namespace that comes and goes."""
        if self._cluster.ensemble.tree.find(paths.local_policies(PASSING)) is None:
            return
        if (daemon := self._clients.pick()) is not None:
            topic = Topic.parse(f"persistent://{PASSING}/t-{self._rng.randrange(_TOPICS)}")
            work = self._clients.look_up(topic, daemon)
            await self._clients.ask(f"lookup_passing at {daemon.broker_id}", work)


def _are_neighbours(left: Bundle, right: Bundle) -> bool:
    is_same = left.namespace == right.namespace == NAMESPACE
    return is_same and left.range.high == right.range.low
