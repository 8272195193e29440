"""Creation of a cluster by its first broker, unless the chroot looks mistyped.

An empty chroot beside one that has the cluster of the same name is probably a mistake. An operator
who intends it writes the name into the chroot first: servers do not show whether a chroot was
created by a daemon or by hand.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from broker_ctl.coordination.membership.other_clusters import FoundCluster, find_clusters
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.errors import StartError, StoreError
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import ClusterName

log = logging.getLogger(__name__)

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
