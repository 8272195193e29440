"""Where bundles may live, as operators have set it (docs: pulsar-isolation)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.safe_regex import is_match

# Brokers in no failure domain share this one; no domain of an operator has an empty name.
_NO_DOMAIN: Final = ""


def host_of(broker_id: str) -> str:
    """The id without its port; the last colon precedes it."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else broker_id


class UnloadScope(StrEnum):
    """Which namespaces are unloaded when a policy is set."""

    ALL_MATCHING = "all_matching"
    NONE = "none"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Which brokers serve the namespaces that match.

    Attributes:
        name: its key in the cluster's policies.
        namespaces: regular expressions, each for a whole ``tenant/namespace``.
        primary, secondary: regular expressions, each for the whole host of a broker: its id
            without the port.
        min_available: secondaries serve too while fewer primaries than this are available.
        usage_threshold: percent; Pulsar keeps it and ignores it in placement.
        unload_scope: None where the policy does not say.
    """

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_available: int = 1
    usage_threshold: int = 100
    unload_scope: UnloadScope | None = None

    def covers(self, namespace: Namespace) -> bool:
        """Whether the namespace is one of those."""
        return _is_any(self.namespaces, str(namespace))

    def is_primary(self, broker_id: str) -> bool:
        """Whether the broker is a first choice."""
        return _is_any(self.primary, host_of(broker_id))

    def is_secondary(self, broker_id: str) -> bool:
        """Whether it helps out; who is both is a primary."""
        return _is_any(self.secondary, host_of(broker_id)) and not self.is_primary(broker_id)


@dataclass(frozen=True, slots=True)
class Constraints:
    """All of a cluster's.

    Attributes:
        isolation: in the order in which they are tried; the first that matches counts.
        domain_of: failure domain by broker id; who is in none shares one with the others.
        group_of: anti-affinity group by namespace, in lower case.
    """

    isolation: tuple[IsolationPolicy, ...] = ()
    domain_of: Mapping[str, str] = field(default_factory=dict)
    group_of: Mapping[Namespace, str] = field(default_factory=dict)

    def policy_of(self, namespace: Namespace) -> IsolationPolicy | None:
        """The policy that counts for a namespace; None: it shares brokers with others."""
        return next((policy for policy in self.isolation if policy.covers(namespace)), None)

    def reserved_by(self, broker_id: str) -> IsolationPolicy | None:
        """A policy that has the broker as a primary; None: it is for everybody."""
        return next((policy for policy in self.isolation if policy.is_primary(broker_id)), None)

    def domain(self, broker_id: str) -> str:
        """The broker's failure domain."""
        return self.domain_of.get(broker_id, _NO_DOMAIN)


NO_CONSTRAINTS: Final = Constraints()


def _is_any(patterns: tuple[str, ...], text: str) -> bool:
    return any(is_match(pattern, text) for pattern in patterns)
