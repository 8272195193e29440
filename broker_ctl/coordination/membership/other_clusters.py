"""Other clusters on the same ZooKeeper servers: they reveal a mistyped chroot."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from broker_ctl.errors import CorruptRecord, NewerVersion, NoAuth
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import ClusterName

# A nested chroot, as in /pulsar/east; deeper ones are not searched.
_DEPTH: Final = 2
# A limit, since the servers may hold the data of many other applications.
_MOST_NODES: Final = 200
# Nodes inside a cluster are not chroots of others.
_NOT_CHROOTS: Final = frozenset(
    {"zookeeper", "broker-ctl", "admin", "loadbalance", "namespace", "ledgers", "managed-ledgers"}
)


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """A chroot that brokers use or have used; it may have several cluster names, or none."""

    chroot: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names) or 'a cluster'} in {self.chroot or '/'}"


async def find_clusters(tree: MetadataStore) -> list[FoundCluster]:
    """Find clusters in the first levels of a store without a chroot, by path.

    Raises:
        StoreError: the store does not answer. Nodes that we may not read are skipped.
    """
    found: list[FoundCluster] = []
    left, looked = deque([""]), 0
    while left and looked < _MOST_NODES:
        chroot, looked = left.popleft(), looked + 1
        try:
            names = await _names(tree, chroot)
            if names is not None:
                found.append(FoundCluster(chroot, names))
            if chroot.count("/") < _DEPTH:
                below = sorted({*await tree.children(chroot or "/")} - _NOT_CHROOTS)
                left += [f"{chroot}/{name}" for name in below]
        except NoAuth:
            continue
    return sorted(found, key=lambda cluster: cluster.chroot)


async def _names(tree: MetadataStore, chroot: str) -> tuple[str, ...] | None:
    """Names of the cluster below a chroot; None if there is no cluster."""
    node = await tree.get(f"{chroot}{paths.CLUSTER_NAME}")
    if node is not None:
        try:
            return (ClusterName.decode(node.path, node.data).name,)
        except (CorruptRecord, NewerVersion):
            return ()
    if not await tree.children(f"{chroot}{paths.LOAD_REPORTS}"):
        return None
    return tuple(sorted(await tree.children(f"{chroot}{paths.CLUSTERS}")))
