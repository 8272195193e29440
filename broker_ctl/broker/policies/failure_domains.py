"""Failure domains: brokers that fail together (docs: pulsar-isolation, pulsar-admin-api).

A broker is in one domain at most. Two daemons that are asked at the same moment could both put it
into one: then the first domain by name counts, for all who follow them.
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
    """Those of this cluster, a node for each."""

    def __init__(self, policy_store: PolicyStore, cluster: str) -> None:
        self._store = policy_store.store
        self._cluster = cluster
        self._root = paths.failure_domains(cluster)
        self._nodes = PolicyNodes(policy_store, self._root, _decode, FailureDomain.encode)
        # Two domains are two nodes: of two requests to this daemon, the second sees the first.
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
        """The brokers of one domain.

        Raises:
            PolicyMissing: there is none of this name.
        """
        require_name("failure domain", name)
        domain = await self._nodes.get(paths.failure_domain(self._cluster, name))
        if domain is None:
            raise PolicyMissing(f"failure domain {name} does not exist")
        return domain.brokers

    async def set(self, name: str, brokers: Sequence[str], *, is_dry_run: bool = False) -> None:
        """Make a domain, or give it other brokers; or only look whether that can be done.

        Raises:
            InvalidName, InvalidPolicy: it makes no sense.
            PolicyConflict: a broker is in another domain.
            PoliciesReadOnly: nothing may be changed.
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
        """Take a domain away; its brokers are in none then. Or only look whether it is there.

        Raises:
            PolicyMissing: there is none of this name.
            PoliciesReadOnly: nothing may be changed.
        """
        require_name("failure domain", name)
        path = paths.failure_domain(self._cluster, name)
        if not await self._nodes.delete(path, is_dry_run=is_dry_run):
            raise PolicyMissing(f"failure domain {name} does not exist")
        if not is_dry_run:
            log.info("failure domain %s was deleted", name)
