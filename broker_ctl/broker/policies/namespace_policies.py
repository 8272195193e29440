"""What a namespace's policies say besides the ring (docs: pulsar-hash, pulsar-http-lookup).

What broker processes act by is kept for them as it was written; only the clusters that a namespace
lives in mean something here.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.broker.policies.clusters import PEERS, Clusters
from broker_ctl.broker.policies.tenants import Tenants
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import ClusterNotAllowed, InvalidName, NamespaceMissing, PolicyConflict
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.policies import PoliciesRecord

log = logging.getLogger(__name__)


def _decode(node: Versioned) -> PoliciesRecord:
    return PoliciesRecord.decode(node.path, node.data)


def _require_existing(namespace: Namespace, found: PoliciesRecord | None) -> PoliciesRecord:
    """What was found, unless somebody is deleting it."""
    if found is None or found.is_deleted:
        raise NamespaceMissing(f"namespace {namespace} does not exist")
    return found


class NamespacePolicies:
    """A node for each namespace, which has the ring too."""

    def __init__(self, policy_store: PolicyStore, tenants: Tenants, clusters: Clusters) -> None:
        self._tenants = tenants
        self._clusters = clusters
        self._nodes = PolicyNodes(policy_store, paths.POLICIES, _decode, PoliciesRecord.encode)

    async def find(self, namespace: Namespace) -> PoliciesRecord:
        """As they are stored.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        return _require_existing(namespace, await self._nodes.get(paths.policies(namespace)))

    async def permissions(self, namespace: Namespace) -> Mapping[str, Any]:
        """What roles may do, by role; the broker process holds them to it.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        stored = Fields(paths.policies(namespace), (await self.find(namespace)).others)
        return stored.child("auth_policies").child("namespace_auth").values

    async def set_replication_clusters(
        self, namespace: Namespace, names: Collection[str], *, is_dry_run: bool = False
    ) -> None:
        """Let a namespace live in these clusters; or only look whether that can be done.

        Raises:
            NamespaceMissing: there is no such namespace.
            InvalidName: no cluster at all.
            ClusterNotAllowed: a cluster that does not exist, or that its tenant may not use.
            PolicyConflict: two clusters that are there in each other's place.
            PoliciesReadOnly: nothing may be changed.
        """
        await self.find(namespace)
        if not names:
            raise InvalidName("ClusterIds should not be null or empty")
        known = await self._clusters.names()
        for name in names:
            if name not in known:
                raise ClusterNotAllowed(f"Invalid cluster id: {name}")
            peers = (await self._clusters.find(name)).get(PEERS) or ()
            shared = sorted(set(peers) & set(names))
            if shared:
                raise PolicyConflict(f"{name} and its peer {shared[0]} cannot both be named")
        await self._tenants.require_allowed(namespace.tenant, names)

        await self._nodes.change(
            paths.policies(namespace),
            lambda found: _require_existing(namespace, found).in_clusters(names),
            is_dry_run=is_dry_run,
        )
        if not is_dry_run:
            log.info("%s lives in %s", namespace, ", ".join(sorted(names)))
