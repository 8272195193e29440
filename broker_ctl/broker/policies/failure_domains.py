"""Failure domains: brokers that fail together (docs: pulsar-isolation, pulsar-admin-api).

A broker is in at most one domain. Concurrent requests to two daemons could put it into two: then
the first domain by name counts for every broker.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.broker.policies.validation import require_brokers, require_name
from broker_ctl.errors import PolicyConflict, PolicyMissing
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.constraints import FailureDomain

log = logging.getLogger(__name__)


def _decode(node: Versioned) -> FailureDomain:
    return FailureDomain.decode(node.path, node.data)


class FailureDomains:
    """The failure domains of this cluster; each is a node."""

    def __init__(self, policy_store: PolicyStore, cluster: str) -> None:
        self._store = policy_store.store
        self._cluster = cluster
        self._root = paths.failure_domains(cluster)
        self._nodes = PolicyNodes(policy_store, self._root, _decode, FailureDomain.encode)
        # Two domains are two nodes: the lock makes the second of two requests see the first.
        self._setting = asyncio.Lock()

    async def all(self) -> Mapping[str, Sequence[str]]:
        """Broker ids by domain."""
        domains: dict[str, Sequence[str]] = {}
        for name in await self._store.children(self._root):
            domain = await self._nodes.get(paths.failure_domain(self._cluster, name))
            if domain is not None:
                domains[name] = domain.brokers
        return domains

    async def find(self, name: str) -> Sequence[str]:
        """The brokers of a domain.

        Raises:
            PolicyMissing: there is no such domain.
        """
        require_name("failure domain", name)
        domain = await self._nodes.get(paths.failure_domain(self._cluster, name))
        if domain is None:
            raise PolicyMissing(f"failure domain {name} does not exist")
        return domain.brokers

    async def set(self, name: str, brokers: Sequence[str], *, is_dry_run: bool = False) -> None:
        """Create a domain or replace its brokers; a dry run only checks that this is possible.

        Raises:
            InvalidName, InvalidPolicy: the name or the brokers are not valid.
            PolicyConflict: a broker is in another domain.
            PoliciesReadOnly: policies are read-only.
        """
        require_name("failure domain", name)
        require_brokers(brokers)
        wanted = tuple(dict.fromkeys(brokers))
        async with self._setting:
            for other, theirs in (await self.all()).items():
                shared = sorted(set(wanted) & set(theirs))
                if other != name and shared:
                    raise PolicyConflict(
                        f"{shared[0]} is in failure domain {other}: take it out there first",
                    )
            await self._nodes.change(
                paths.failure_domain(self._cluster, name),
                lambda found: (found or FailureDomain()).with_brokers(wanted),
                is_dry_run=is_dry_run,
            )
        if not is_dry_run:
            log.info("failure domain %s was set: %s", name, " ".join(wanted))

    async def delete(self, name: str, *, is_dry_run: bool = False) -> None:
        """Delete a domain; its brokers are in none then. A dry run only checks that it exists.

        Raises:
            PolicyMissing: there is no such domain.
            PoliciesReadOnly: policies are read-only.
        """
        require_name("failure domain", name)
        path = paths.failure_domain(self._cluster, name)
        if not await self._nodes.delete(path, is_dry_run=is_dry_run):
            raise PolicyMissing(f"failure domain {name} does not exist")
        if not is_dry_run:
            log.info("failure domain %s was deleted", name)
