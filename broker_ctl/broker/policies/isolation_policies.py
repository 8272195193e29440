"""Namespace isolation policies of a cluster: read, set and delete.

Docs: pulsar-isolation, pulsar-admin-api.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.namespaces.policy_store import PolicyNodes, PolicyStore
from broker_ctl.broker.policies.validation import MAX_POLICIES, require_policy
from broker_ctl.core.model.constraints import Constraints, IsolationPolicy, UnloadScope
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import CorruptRecord, InvalidPolicy, PolicyMissing
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.constraints import NamespaceIsolationPolicies, decode_policy
from broker_ctl.store.records.fields import Fields

log = logging.getLogger(__name__)


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


def _decode(node: Versioned) -> NamespaceIsolationPolicies:
    return NamespaceIsolationPolicies.decode(node.path, node.data)


class IsolationPolicies:
    """The isolation policies of this cluster: one node, a map by name."""

    def __init__(self, policy_store: PolicyStore, cluster: str, namespaces: Namespaces) -> None:
        self._path = paths.isolation_policies(cluster)
        self._namespaces = namespaces
        self._nodes = PolicyNodes(
            policy_store, self._path, _decode, NamespaceIsolationPolicies.encode
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
