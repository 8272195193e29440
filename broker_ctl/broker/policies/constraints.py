"""A watched cache of the constraints on placement (docs: pulsar-isolation).

Isolation policies and failure domains live in the configuration store, anti-affinity groups in the
local policies beside the rings. Watches keep the cache current, so that placement reads it without
waiting; a change takes effect at the next placement. A broker that operators have put into no
failure domain is in that of its rack: both name brokers that fail together.
"""

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from broker_ctl.broker.policies.validation import require_patterns
from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.core.model.constraints import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import InvalidPolicy
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.constraints import FailureDomain, NamespaceIsolationPolicies
from broker_ctl.store.records.policies import LocalPolicies

log = logging.getLogger(__name__)

# Levels of /admin/local-policies: tenant and namespace.
_NAMESPACE_DEPTH = 2


def _decode_domain(node: Versioned) -> FailureDomain:
    return FailureDomain.decode(node.path, node.data)


def _decode_group(node: Versioned) -> str:
    if not node.data:
        # A node of a V1 cluster name, or a parent that was created for its child.
        return ""
    return (LocalPolicies.decode(node.path, node.data).anti_affinity_group or "").lower()


class ConstraintsCache:
    """`core.constraints.Constraints` of this cluster, as of the newest events.

    A node that does not decode is logged and counted, and its last good value stays. So is a policy
    with an unusable pattern: the other policies of its node take effect without it.

    Args:
        racks: of live brokers, by id; another object after each change.
    """

    def __init__(
        self,
        store: MetadataStore,
        configuration_store: MetadataStore,
        cluster: str,
        *,
        rng: random.Random,
        racks: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._policies = NodeCache(
            configuration_store, paths.isolation_policies(cluster), self._decode_policies, rng=rng
        )
        self._domains = NodeCache(
            configuration_store, paths.failure_domains(cluster), _decode_domain, depth=1, rng=rng
        )
        self._groups = NodeCache(
            store, paths.LOCAL_POLICIES, _decode_group, _NAMESPACE_DEPTH, rng=rng
        )
        self._usable: dict[str, IsolationPolicy] = {}
        self._unusable = 0
        self._by_operators = self._current = NO_CONSTRAINTS
        self._racks = racks
        self._seen_racks: Mapping[str, str] = {}

    async def start(self) -> None:
        """Watch, and return once all is read: placements before that could violate a constraint."""
        for followed in (self._policies, self._domains, self._groups):
            followed.listen(self._changed)
            await followed.start()
        for followed in (self._policies, self._domains, self._groups):
            await followed.wait_synced()

    async def close(self) -> None:
        """Stop the watches; the last known values stay."""
        for followed in (self._policies, self._domains, self._groups):
            await followed.close()

    def current(self) -> Constraints:
        """The constraints; a new value after each change."""
        racks = self._racks()
        if racks is not self._seen_racks and racks != self._seen_racks:
            self._seen_racks = racks
            self._complete()
        return self._current

    @property
    def corrupt(self) -> int:
        """Number of reads that did not decode, and of unusable policies."""
        nodes = self._policies.corrupt + self._domains.corrupt + self._groups.corrupt
        return nodes + self._unusable

    def _changed(self) -> None:
        found = Constraints(
            next(iter(self._policies.values.values()), ()),
            _domain_of(self._domains.values),
            _group_of(self._groups.values),
        )
        # The change was to a ring, in a node whose group is the same as before.
        if found != self._by_operators:
            self._by_operators = found
            self._complete()

    def _complete(self) -> None:
        """Add the racks of brokers that are in no failure domain."""
        domain_of = {**self._seen_racks, **self._by_operators.domain_of}
        self._current = replace(self._by_operators, domain_of=domain_of)

    def _decode_policies(self, node: Versioned) -> tuple[IsolationPolicy, ...]:
        record = NamespaceIsolationPolicies.decode(node.path, node.data)
        usable = {policy.name: self._usable_policy(policy) for policy in record.policies}
        self._usable = {name: policy for name, policy in usable.items() if policy is not None}
        return tuple(self._usable.values())

    def _usable_policy(self, policy: IsolationPolicy) -> IsolationPolicy | None:
        try:
            require_patterns(policy)
        except InvalidPolicy as error:
            self._unusable += 1
            before = self._usable.get(policy.name)
            kept = "left out" if before is None else "its last good value stays"
            log.warning("isolation policy %s: %s; %s", policy.name, error, kept)
            return before
        return policy


def _domain_of(domains: Mapping[str, FailureDomain]) -> dict[str, str]:
    domain_of: dict[str, str] = {}
    for path, domain in sorted(domains.items()):
        name = path.rpartition("/")[2]
        for broker_id in domain.brokers:
            first = domain_of.setdefault(broker_id, name)
            if first != name:
                log.warning(
                    "%s is in two failure domains: %s is used, not %s", broker_id, first, name
                )
    return domain_of


def _group_of(groups: Mapping[str, str]) -> dict[Namespace, str]:
    by_namespace = ((paths.local_policies_namespace(path), group) for path, group in groups.items())
    return {name: group for name, group in by_namespace if name is not None and group}
