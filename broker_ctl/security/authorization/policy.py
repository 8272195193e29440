"""Decisions: whether a client may perform an operation on a resource.

Ready roles have rights in the whole cluster. With ``authorizationEnabled`` everything else needs a
grant that Pulsar stores; without, every authenticated role may read and look up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.security.authorization.cluster_roles import ClusterRoles
from broker_ctl.security.authorization.grants import Grants
from broker_ctl.security.authorization.operations import Operation
from broker_ctl.security.authorization.resources import Resource, ResourceKind

# Every authenticated role may do this where grants do not count.
_UNGRANTED: Final = frozenset({Operation.LOOKUP, Operation.READ})
# An admin of a tenant reads the tenant itself; only super users change it.
_ADMIN_OF_TENANT: Final = frozenset({Operation.READ, Operation.READ_SENSITIVE})
# What these do to a namespace happens to brokers, which are not the tenant's: in Pulsar only super
# users unload and split bundles.
_NEVER_GRANTED: Final = frozenset({Operation.COMMAND, Operation.MOVE, Operation.SPLIT})
_BELOW_TENANT: Final = frozenset({ResourceKind.NAMESPACE, ResourceKind.TOPIC})
_SETTINGS: Final[Mapping[Operation, str]] = {
    Operation.READ: "viewerRoles, operatorRoles or superUserRoles",
    Operation.MONITOR: "viewerRoles, operatorRoles or superUserRoles",
    Operation.LOOKUP: "operatorRoles or superUserRoles",
    Operation.MOVE: "operatorRoles or superUserRoles",
    Operation.SPLIT: "operatorRoles or superUserRoles",
    Operation.DRAIN: "operatorRoles or superUserRoles",
    Operation.PAUSE: "operatorRoles or superUserRoles",
    Operation.PLAN: "operatorRoles or superUserRoles",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an operation is allowed; ``reason`` says why it is not."""

    is_allowed: bool
    reason: str = ""


ALLOWED: Final = Decision(is_allowed=True)


@dataclass(frozen=True, slots=True)
class AuthorizationPolicy:
    """What roles may do.

    Attributes:
        is_enabled: ``authorizationEnabled``: whether the grants that Pulsar stores count.
        is_wildcard: ``authorizationAllowWildcardsMatching``: whether ``*`` at the beginning or the
            end of a granted role stands for any text.
        authenticates_original: ``authenticateOriginalAuthData``: whether the original principal of
            a proxy's connection has to be proven by its own credentials.
    """

    roles: ClusterRoles
    is_enabled: bool = False
    is_wildcard: bool = False
    authenticates_original: bool = False

    def original_principal_error(self, role: str, original: str) -> str | None:
        """Why a client may not name this original principal, or must name one; None: it is valid.

        As in ``isValidOriginalPrincipal`` of Pulsar's ``AuthorizationService``: a proxy names the
        principal that it acts for, which is not a proxy; others name none but themselves.
        """
        proxies = self.roles.proxies
        if role in proxies:
            if not original:
                return f"role {role} is in proxyRoles and has to name the original principal"
            if original in proxies:
                return "the original principal cannot be in proxyRoles"
        elif original and original != role:
            return f"role {role} is not in proxyRoles and cannot name an original principal"
        return None

    def may_be_proxy(self, role: str) -> bool:
        """Whether a client may say that it is a proxy; where grants count, only a proxy may."""
        return not self.is_enabled or role in self.roles.proxies

    def allows_everywhere(self, role: str, operation: Operation) -> bool:
        """Whether a role may perform an operation on every resource, whatever is granted."""
        is_open = not self.is_enabled and operation in _UNGRANTED
        return is_open or self.roles.allow(role, operation)

    def needs_grants(self, role: str, operation: Operation, resource: Resource) -> bool:
        """Whether the decision depends on the grants at a resource."""
        return (
            self.is_enabled
            and bool(resource.tenant)
            and not self.allows_everywhere(role, operation)
        )

    def decide(
        self, role: str, operation: Operation, resource: Resource, grants: Grants
    ) -> Decision:
        """The decision for one role; ``grants``: those at the resource, if it depends on them."""
        if (
            self.is_enabled and self._is_granted(role, operation, resource, grants)
        ) or self.allows_everywhere(role, operation):
            return ALLOWED
        settings = _SETTINGS.get(operation, "superUserRoles")
        hint = f"it is not in {settings}"
        if self.is_enabled and resource.tenant and operation not in _NEVER_GRANTED:
            hint += ", and there is no grant"
        return Decision(
            is_allowed=False, reason=f"role {role} may not {operation} {resource}: {hint}"
        )

    def _is_granted(
        self, role: str, operation: Operation, resource: Resource, grants: Grants
    ) -> bool:
        if operation in _NEVER_GRANTED:
            return False
        if role in grants.admin_roles:
            is_below = resource.kind in _BELOW_TENANT
            if is_below or (resource.kind is ResourceKind.TENANT and operation in _ADMIN_OF_TENANT):
                return True
        if operation is not Operation.LOOKUP:
            return False
        if resource.topic is not None:
            return grants.namespace.allow_topic(role, resource.topic, is_wildcard=self.is_wildcard)
        is_namespace = resource.kind is ResourceKind.NAMESPACE
        return is_namespace and grants.namespace.allow_list(role, is_wildcard=self.is_wildcard)
