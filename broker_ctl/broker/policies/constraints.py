"""Isolation policies, failure domains, anti-affinity (docs: pulsar-isolation)."""

import asyncio
import logging
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from broker_ctl.broker.namespaces.namespaces import LocalPoliciesRecord, Namespaces
from broker_ctl.broker.namespaces.policy_store import UPDATE_RULES, PolicyNodes, PolicyStore
from broker_ctl.coordination.directives import NodeCache
from broker_ctl.core.model.broker import (
    NO_CONSTRAINTS,
    Constraints,
    IsolationPolicy,
    UnloadScope,
    host_of,
)
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.regular_expressions import compiled
from broker_ctl.errors import (
    CorruptRecord,
    InvalidName,
    InvalidPolicy,
    PolicyConflict,
    PolicyMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.cached_values import Updates
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.constraints import (
    FailureDomain,
    NamespaceIsolationPolicies,
    decode_policy,
)
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.policies import LocalPolicies

log = logging.getLogger(__name__)

# Validation of policies: names, patterns, and how many of each.
#
# Every pattern is checked by `core/model/regular_expressions.py`, which refuses those with too
# many steps.


MAX_POLICIES: Final = 1024
MAX_PATTERNS: Final = 256
MAX_BROKERS: Final = 4096
# Clients without any right may have patterns matched against the id of a broker that is not alive,
# so that text is short: it takes a sixtieth of the time that 256 characters take.
MAX_OFFLINE_HOST: Final = 64
_NAME: Final = re.compile(r"[-=:.\w]{1,128}", re.ASCII)
_GROUP: Final = re.compile(r"[-=:.\w]{1,128}")
# A host with a port; the host may be an IPv6 address in brackets.
_BROKER: Final = re.compile(
    r"[-.\w]{1,253}:[0-9]{1,5}|\[[0-9a-fA-F:.%\w]{2,64}\]:[0-9]{1,5}", re.ASCII
)


def require_name(kind: str, name: str) -> None:
    """Refuse a name that cannot be part of a path or a label.

    Raises:
        InvalidName: the name is not valid.
    """
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        allowed = "1 to 128 letters, digits and -=:._"
        raise InvalidName(f"{kind} {name[:128]!r}: a name has {allowed}")


def require_group(name: str) -> None:
    """Refuse an invalid name of an anti-affinity group; letters of any script are allowed.

    Raises:
        InvalidName: the name is not valid.
    """
    if not _GROUP.fullmatch(name) or name in {".", ".."}:
        allowed = "1 to 128 letters and digits of any script, and -=:._"
        raise InvalidName(f"anti-affinity group {name[:128]!r}: a name has {allowed}")


def require_patterns(policy: IsolationPolicy) -> None:
    """Refuse patterns that cannot be used.

    Raises:
        InvalidPolicy: names the pattern and the reason.
    """
    for field in ("namespaces", "primary", "secondary"):
        patterns: Sequence[str] = getattr(policy, field)
        if len(patterns) > MAX_PATTERNS:
            raise InvalidPolicy(f"{field}: {len(patterns)} patterns, {MAX_PATTERNS} are allowed")
        for pattern in patterns:
            try:
                compiled(pattern)
            except InvalidName as error:
                raise InvalidPolicy(f"{field}: {error}") from error


def require_policy(policy: IsolationPolicy) -> None:
    """Refuse an invalid isolation policy.

    Raises:
        InvalidName: its name is not valid. InvalidPolicy: its contents are not valid.
    """
    require_name("policy", policy.name)
    for field in ("namespaces", "primary"):
        patterns: Sequence[str] = getattr(policy, field)
        if not patterns or not all(patterns):
            raise InvalidPolicy(f"{field}: at least one pattern is needed, and none may be empty")
    require_patterns(policy)


def require_brokers(brokers: Sequence[str]) -> None:
    """Refuse an invalid list of brokers of a failure domain.

    Raises:
        InvalidPolicy: names the broker id and the reason.
    """
    if not 0 < len(brokers) <= MAX_BROKERS:
        raise InvalidPolicy(f"brokers: a failure domain has 1 to {MAX_BROKERS}")
    for broker_id in brokers:
        if not _BROKER.fullmatch(broker_id):
            raise InvalidPolicy(f"brokers: {broker_id[:128]!r} is not a broker id (host:port)")


def require_short_broker(broker_id: str) -> None:
    """Refuse the id of a broker that is not alive, unless it is one, with a short host.

    Raises:
        InvalidName: it is not, or its host is too long.
    """
    if not _BROKER.fullmatch(broker_id) or len(host_of(broker_id)) > MAX_OFFLINE_HOST:
        raise InvalidName(
            f"broker {broker_id[:128]!r} is not alive; others are named by host:port, with a host "
            f"of at most {MAX_OFFLINE_HOST} characters"
        )


# Anti-affinity groups: namespaces that should not share a broker.
#
# Docs: pulsar-isolation, pulsar-admin-api.


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


# Failure domains: brokers that fail together (docs: pulsar-isolation, pulsar-admin-api).
#
# A broker is in at most one domain. Concurrent requests to two daemons could put it into two: then
# the first domain by name counts for every broker.


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


# Namespace isolation policies of a cluster: read, set and delete.
#
# Docs: pulsar-isolation, pulsar-admin-api.


def parse_policy(name: str, body: Mapping[str, Any]) -> IsolationPolicy:
    """Parse a policy as Pulsar's clients send it.

    Raises:
        InvalidName, InvalidPolicy: the name or the policy is not valid.
    """
    try:
        policy = decode_policy(name, Fields(f"policy {name}", body))
    except CorruptRecord as error:
        raise InvalidPolicy(str(error)) from error
    require_policy(policy)
    return policy


def allows(
    constraints: Constraints, namespace: Namespace, broker_id: str, live: Collection[str]
) -> bool:
    """Return whether isolation lets a broker serve a namespace while these brokers are alive."""
    policy = constraints.policy_of(namespace)
    if policy is None:
        return constraints.reserved_by(broker_id) is None
    if policy.is_primary(broker_id):
        return True
    primaries = sum(policy.is_primary(other) for other in live)
    return primaries < policy.min_available and policy.is_secondary(broker_id)


def left_without_broker(
    before: Constraints,
    after: Constraints,
    namespaces: Collection[Namespace],
    live: Collection[str],
) -> tuple[Namespace, ...]:
    """Namespaces that a live broker may serve before a change of policies, and none after it."""

    def has_broker(constraints: Constraints, namespace: Namespace) -> bool:
        return any(allows(constraints, namespace, broker_id, live) for broker_id in live)

    return tuple(
        sorted(
            namespace
            for namespace in namespaces
            if not namespace.is_pinned
            and has_broker(before, namespace)
            and not has_broker(after, namespace)
        )
    )


def namespaces_to_unload(
    before: Constraints, after: Constraints, name: str, namespaces: Collection[Namespace]
) -> tuple[Namespace, ...]:
    """Namespaces whose bundles may be on wrong brokers now that the policy ``name`` was set.

    ``all_matching``: all namespaces of the policy. ``changed``: those that joined or left the
    policy; if its brokers changed, all that are or were in it. Otherwise none: bundles move when
    they are next placed.
    """
    policies = {policy.name: policy for policy in after.isolation}
    former = next((policy for policy in before.isolation if policy.name == name), None)
    policy = policies[name]
    if policy.unload_scope in {None, UnloadScope.NONE}:
        return ()
    is_other = former is None or _brokers_of(former) != _brokers_of(policy)
    wants_all = is_other or policy.unload_scope is UnloadScope.ALL_MATCHING

    def concerns(namespace: Namespace) -> bool:
        if namespace.is_pinned:
            # Its broker is part of its name; isolation policies do not apply.
            return False
        did, does = _applies(before, name, namespace), _applies(after, name, namespace)
        return (did or does) if wants_all else did != does

    return tuple(sorted(filter(concerns, namespaces)))


def _applies(constraints: Constraints, name: str, namespace: Namespace) -> bool:
    policy = constraints.policy_of(namespace)
    return policy is not None and policy.name == name


def _brokers_of(policy: IsolationPolicy) -> tuple[object, ...]:
    return frozenset(policy.primary), frozenset(policy.secondary), policy.min_available


@dataclass(frozen=True, slots=True)
class PolicyEffect:
    """What a policy does when it is set.

    Attributes:
        unloads: namespaces to unload for it.
        without_broker: namespaces that no live broker may serve any more.
    """

    unloads: tuple[Namespace, ...]
    without_broker: tuple[Namespace, ...]


def _decode_of_isolation_policies(node: Versioned) -> NamespaceIsolationPolicies:
    return NamespaceIsolationPolicies.decode(node.path, node.data)


class IsolationPolicies:
    """The isolation policies of this cluster: one node, a map by name."""

    def __init__(self, policy_store: PolicyStore, cluster: str, namespaces: Namespaces) -> None:
        self._path = paths.isolation_policies(cluster)
        self._namespaces = namespaces
        self._nodes = PolicyNodes(
            policy_store,
            self._path,
            _decode_of_isolation_policies,
            NamespaceIsolationPolicies.encode,
        )

    async def all(self) -> tuple[IsolationPolicy, ...]:
        """All policies, in the order of precedence."""
        return (await self._record()).policies

    async def raw(self) -> Mapping[str, Mapping[str, Any]]:
        """All policies as stored, by name."""
        return (await self._record()).raw

    async def set(
        self, policy: IsolationPolicy, live: Collection[str], *, is_dry_run: bool = False
    ) -> "PolicyEffect":
        """Add or replace a policy. A dry run writes nothing.

        Args:
            policy: the new one.
            live: ids of the live brokers.
            is_dry_run: only check and foretell.

        Raises:
            InvalidName, InvalidPolicy: the policy is not valid, or there are too many.
            PoliciesReadOnly: policies are read-only.
        """
        require_policy(policy)
        # Before the write: a failed read must not make a policy that was set look refused.
        namespaces = await self._namespaces.all()
        versions: list[NamespaceIsolationPolicies] = []

        def change(found: NamespaceIsolationPolicies | None) -> NamespaceIsolationPolicies:
            before = found or NamespaceIsolationPolicies()
            after = before.with_policy(policy)
            if len(after.policies) > MAX_POLICIES:
                raise InvalidPolicy(f"a cluster has at most {MAX_POLICIES} isolation policies")
            # `change` runs once per attempt; the values of the last one were written.
            versions[:] = [before, after]
            return after

        await self._nodes.change(self._path, change, is_dry_run=is_dry_run)
        if not is_dry_run:
            log.info("isolation policy %s was set: %s", policy.name, _describe(policy))
        before, after = (Constraints(isolation=record.policies) for record in versions)
        effect = PolicyEffect(
            namespaces_to_unload(before, after, policy.name, namespaces),
            left_without_broker(before, after, namespaces, live),
        )
        if effect.without_broker and not is_dry_run:
            log.warning(
                "isolation policy %s leaves %d namespaces without a live broker, the first is %s",
                policy.name,
                len(effect.without_broker),
                effect.without_broker[0],
            )
        return effect

    async def delete(self, name: str, *, is_dry_run: bool = False) -> None:
        """Delete a policy; a dry run only checks that this is possible.

        Raises:
            PolicyMissing: there is no such policy.
            PoliciesReadOnly: policies are read-only.
        """

        def change(found: NamespaceIsolationPolicies | None) -> NamespaceIsolationPolicies:
            if found is None or found.find(name) is None:
                raise PolicyMissing(f"isolation policy {name} does not exist")
            return found.without(name)

        await self._nodes.change(self._path, change, is_dry_run=is_dry_run)
        if not is_dry_run:
            log.info("isolation policy %s was deleted", name)

    async def _record(self) -> NamespaceIsolationPolicies:
        return await self._nodes.get(self._path) or NamespaceIsolationPolicies()


def _describe(policy: IsolationPolicy) -> str:
    """The policy in one line."""
    secondary = f", secondary {' '.join(policy.secondary)}" if policy.secondary else ""
    return (
        f"namespaces {' '.join(policy.namespaces)}, primary {' '.join(policy.primary)}{secondary}, "
        f"min_limit {policy.min_available}, unload scope {policy.unload_scope or 'none'}"
    )


# A watched cache of the constraints on placement (docs: pulsar-isolation).
#
# Isolation policies and failure domains live in the configuration store, anti-affinity groups in
# the local policies beside the rings. Watches keep the cache current, so that placement reads it
# without waiting; a change takes effect at the next placement. A broker that operators have put
# into no failure domain is in that of its rack: both name brokers that fail together.


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
