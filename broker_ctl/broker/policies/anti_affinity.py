"""Anti-affinity groups: namespaces that should not share a broker.

Docs: pulsar-isolation, pulsar-admin-api.
"""

import logging
from dataclasses import replace

from broker_ctl.broker.namespaces.namespaces import LocalPoliciesRecord, Namespaces
from broker_ctl.broker.namespaces.policy_store import UPDATE_RULES, PolicyStore
from broker_ctl.broker.policies.validation import require_group
from broker_ctl.core.model.names import Namespace
from broker_ctl.store import paths
from broker_ctl.store.caches.updates import Updates
from broker_ctl.store.interface import MetadataStore

log = logging.getLogger(__name__)


def _encode(record: LocalPoliciesRecord) -> bytes:
    return record.policies.encode()


class AntiAffinity:
    """Groups of namespaces; the group is a field of the local policies, beside the ring."""

    def __init__(
        self, store: MetadataStore, policy_store: PolicyStore, namespaces: Namespaces
    ) -> None:
        self._flag = policy_store.flag
        self._namespaces = namespaces
        self._updates = Updates(
            store,
            namespaces.cache,
            _encode,
            clock=policy_store.clock,
            rng=policy_store.rng,
            rules=UPDATE_RULES,
        )

    async def group_of(self, namespace: Namespace) -> str | None:
        """The namespace's group.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        return (await self._namespaces.local_policies(namespace)).policies.anti_affinity_group

    async def set(
        self, namespace: Namespace, group: str | None, *, is_dry_run: bool = False
    ) -> None:
        """Set or remove the group of a namespace; a dry run only checks that this is possible.

        Raises:
            InvalidName: the name of the group is not valid.
            NamespaceMissing: there is no such namespace.
            PoliciesReadOnly: policies are read-only.
        """
        if group is not None:
            require_group(group)
        await self._flag.require_writable()
        # Creates missing local policies from the policies: local policies with only a group would
        # mean a ring of one bundle (Pulsar #20194).
        await self._namespaces.local_policies(namespace)
        if is_dry_run:
            return

        def change(found: LocalPoliciesRecord) -> LocalPoliciesRecord:
            return replace(found, policies=replace(found.policies, anti_affinity_group=group))

        await self._updates.read_modify_update(paths.local_policies(namespace), change)
        log.info("%s: anti-affinity group %s", namespace, group or "none")

    async def members(self, tenant: str, group: str) -> list[Namespace]:
        """Namespaces of a tenant in a group, compared without case."""
        require_group(group)
        found: list[Namespace] = []
        for namespace in await self._namespaces.of_tenant(tenant):
            theirs = await self.group_of(namespace)
            if theirs is not None and theirs.lower() == group.lower():
                found.append(namespace)
        return found
