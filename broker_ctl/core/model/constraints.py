"""Constraints of operators on where bundles may be placed (docs: pulsar-isolation)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.safe_regex import is_match
from broker_ctl.core.model.topic_partitions import NO_TOPIC_PARTITIONS, TopicPartitions

# The failure domain of brokers that operators have put in none; theirs never have an empty name.
_NO_DOMAIN: Final = ""


def host_of(broker_id: str) -> str:
    """Return the host in a broker id: everything before the last colon."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else broker_id


class UnloadScope(StrEnum):
    """Which namespaces are unloaded when a policy is set."""

    ALL_MATCHING = "all_matching"
    NONE = "none"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Restricts the namespaces that it matches to certain brokers.

    Attributes:
        name: the policy's key among the cluster's policies.
        namespaces: regular expressions, each for a whole ``tenant/namespace``.
        primary, secondary: regular expressions, each for the whole host of a broker: its id
            without the port.
        min_available: secondaries also serve while fewer primaries than this are available.
        usage_threshold: percent; stored for Pulsar, which ignores it in placement, too.
        unload_scope: namespaces that are unloaded when the policy is set; None: not specified.
    """

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_available: int = 1
    usage_threshold: int = 100
    unload_scope: UnloadScope | None = None

    def covers(self, namespace: Namespace) -> bool:
        """Return whether the policy applies to the namespace."""
        return _is_any(self.namespaces, str(namespace))

    def is_primary(self, broker_id: str) -> bool:
        """Return whether the broker is a primary of this policy."""
        return _is_any(self.primary, host_of(broker_id))

    def is_secondary(self, broker_id: str) -> bool:
        """Return whether the broker is a secondary; a broker that matches both is a primary."""
        return _is_any(self.secondary, host_of(broker_id)) and not self.is_primary(broker_id)

    def admits(self, broker_id: str, available: int) -> bool:
        """Return whether the broker may serve while ``available`` primaries are available."""
        if self.is_primary(broker_id):
            return True
        return available < self.min_available and self.is_secondary(broker_id)


@dataclass(frozen=True, slots=True)
class Constraints:
    """All placement constraints of a cluster.

    Attributes:
        isolation: isolation policies in order; the first one that matches a namespace applies.
        domain_of: failure domain by broker id; all brokers that are not listed share one domain.
        group_of: anti-affinity group by namespace, in lower case.
        topics: the partitioned topics; only the leader knows them.
    """

    isolation: tuple[IsolationPolicy, ...] = ()
    domain_of: Mapping[str, str] = field(default_factory=dict)
    group_of: Mapping[Namespace, str] = field(default_factory=dict)
    topics: TopicPartitions = NO_TOPIC_PARTITIONS

    def policy_of(self, namespace: Namespace) -> IsolationPolicy | None:
        """Return the policy that applies to a namespace; None: it uses the shared brokers."""
        return next((policy for policy in self.isolation if policy.covers(namespace)), None)

    def reserved_by(self, broker_id: str) -> IsolationPolicy | None:
        """Return a policy with the broker as a primary; None: the broker is a shared one."""
        return next((policy for policy in self.isolation if policy.is_primary(broker_id)), None)

    def domain(self, broker_id: str) -> str:
        """Return the broker's failure domain."""
        return self.domain_of.get(broker_id, _NO_DOMAIN)


NO_CONSTRAINTS: Final = Constraints()


def _is_any(patterns: tuple[str, ...], text: str) -> bool:
    return any(is_match(pattern, text) for pattern in patterns)
