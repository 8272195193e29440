"""Policies of a namespace besides its ring (docs: pulsar-hash, pulsar-http-lookup).

Fields for the broker processes are stored unchanged; broker-ctl only interprets the clusters of a
namespace.
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
    """Return the policies; raises if they do not exist or are marked as deleted."""
    if found is None or found.is_deleted:
        raise NamespaceMissing(f"namespace {namespace} does not exist")
    return found


class NamespacePolicies:
    """Policies by namespace; a node for each namespace also holds the ring."""

    def __init__(self, policy_store: PolicyStore, tenants: Tenants, clusters: Clusters) -> None:
        self._tenants = tenants
        self._clusters = clusters
        self._nodes = PolicyNodes(policy_store, paths.POLICIES, _decode, PoliciesRecord.encode)

    async def find(self, namespace: Namespace) -> PoliciesRecord:
        """The policies as stored.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        return _require_existing(namespace, await self._nodes.get(paths.policies(namespace)))

    async def permissions(self, namespace: Namespace) -> Mapping[str, Any]:
        """Permissions by role, which the broker process enforces.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        stored = Fields(paths.policies(namespace), (await self.find(namespace)).others)
        return stored.child("auth_policies").child("namespace_auth").values

    async def set_replication_clusters(
        self, namespace: Namespace, names: Collection[str], *, is_dry_run: bool = False
    ) -> None:
        """Set the clusters of a namespace; a dry run only checks that this is possible.

        Raises:
            NamespaceMissing: there is no such namespace.
            InvalidName: no cluster is named.
            ClusterNotAllowed: a cluster does not exist, or the tenant may not use it.
            PolicyConflict: two of the clusters are peers of each other.
            PoliciesReadOnly: policies are read-only.
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
