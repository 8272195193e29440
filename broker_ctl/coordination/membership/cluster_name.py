"""The cluster name below a chroot: the first broker writes it, and all others must match it."""

import contextlib

from broker_ctl.errors import NodeExists, StartError
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import ClusterName


async def require_cluster_name(store: MetadataStore, name: str) -> None:
    """Write the name if there is none: a new cluster, or one of an earlier release.

    Raises:
        StartError: the store has another name.
        CorruptRecord, NewerVersion: the stored name cannot be read.
    """
    node = await store.get(paths.CLUSTER_NAME)
    if node is None:
        with contextlib.suppress(NodeExists):
            await store.create(paths.CLUSTER_NAME, ClusterName(name).encode(), make_parents=True)
        node = await store.get(paths.CLUSTER_NAME)
    kept = name if node is None else ClusterName.decode(node.path, node.data).name
    if kept != name:
        raise StartError(
            f"clusterName={name}, but the brokers below metadataStoreUrl are the cluster {kept}: "
            "give that name, or this cluster a chroot of its own. Where the cluster is to be "
            f"called {name} from now on, stop all its brokers and delete {paths.CLUSTER_NAME}",
        )
