"""Who may do what on which resource, with the grants that Pulsar stores."""

import re
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from broker_ctl.core.model.names import Namespace, Topic

# The operations that a role may be allowed to perform.


class Operation(StrEnum):
    """What a request does to a resource.

    Attributes:
        LOOKUP: find the broker or the partitions of a topic, or list the topics of a namespace.
        READ: read what Pulsar's admin API shows.
        READ_SENSITIVE: read what names roles, or may hold the credentials of a client.
        MONITOR: read what operators see: status, plans, history.
        MOVE: unload and move bundles, and elect leaders of partitions.
        SPLIT: split and merge bundles.
        DRAIN: begin and end the drain of a broker.
        PAUSE: pause and resume the balancer.
        PLAN: propose a plan, or end one.
        APPROVE: have a plan executed.
        CONFIGURE: create resources, and change settings and policies.
        DELETE: delete resources.
        COMMAND: send a command of the leader or the controller to a broker.
    """

    LOOKUP = "lookup"
    READ = "read"
    READ_SENSITIVE = "read sensitive data of"
    MONITOR = "monitor"
    MOVE = "move"
    SPLIT = "split"
    DRAIN = "drain"
    PAUSE = "pause"
    PLAN = "plan"
    APPROVE = "approve"
    CONFIGURE = "configure"
    DELETE = "delete"
    COMMAND = "command"


# The resources that operations are performed on.


class ResourceKind(StrEnum):
    """Kinds of resources; tenants contain namespaces, and these contain topics."""

    CLUSTER = "cluster"
    BROKER = "broker"
    TENANT = "tenant"
    NAMESPACE = "namespace"
    TOPIC = "topic"


class Resource(NamedTuple):
    """One resource.

    Attributes:
        name: as reasons name it; empty for the cluster, and for a topic, which has its own.
        tenant: that it is, or belongs to; empty: no tenant's.
        namespace: that it is, or belongs to; None: no namespace's.
        topic: None unless it is one.
    """

    kind: ResourceKind
    name: str = ""
    tenant: str = ""
    namespace: Namespace | None = None
    topic: Topic | None = None

    @classmethod
    def of_broker(cls, broker_id: str) -> "Resource":
        """A broker."""
        return cls(ResourceKind.BROKER, broker_id)

    @classmethod
    def of_tenant(cls, tenant: str) -> "Resource":
        """A tenant."""
        return cls(ResourceKind.TENANT, tenant, tenant)

    @classmethod
    def of_namespace(cls, namespace: Namespace) -> "Resource":
        """A namespace."""
        return cls(ResourceKind.NAMESPACE, str(namespace), namespace.tenant, namespace)

    @classmethod
    def of_topic(cls, topic: Topic) -> "Resource":
        """A topic."""
        namespace = topic.namespace
        return cls(ResourceKind.TOPIC, "", namespace.tenant, namespace, topic)

    def __str__(self) -> str:
        name = self.name if self.topic is None else str(self.topic)
        return f"{self.kind} {name}" if name else f"the {self.kind}"


CLUSTER: Final = Resource(ResourceKind.CLUSTER)


# Roles with rights in the whole cluster, by their settings.


_VIEWER: Final = frozenset({Operation.READ, Operation.MONITOR})
_OPERATOR: Final = _VIEWER | {
    Operation.LOOKUP,
    Operation.MOVE,
    Operation.SPLIT,
    Operation.DRAIN,
    Operation.PAUSE,
    Operation.PLAN,
}


@dataclass(frozen=True, slots=True)
class ClusterRoles:
    """Members of the ready roles.

    Attributes:
        super_users: admins, who may do everything.
        operators, viewers: the other ready roles.
        proxies: roles that act for the principal that they name, as far as both may.
    """

    super_users: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    viewers: frozenset[str] = frozenset()
    proxies: frozenset[str] = frozenset()

    def allow(self, role: str, operation: Operation) -> bool:
        """Whether a ready role of this role includes an operation."""
        return (
            role in self.super_users
            or (role in self.operators and operation in _OPERATOR)
            or (role in self.viewers and operation in _VIEWER)
        )


# Grants that Pulsar stores: admin roles of tenants, and permissions in namespaces and on topics.
#
# Source: ``checkPermission`` in
# https://github.com/apache/pulsar/blob/master/pulsar-broker-common/src/main/java/org/apache/pulsar/broker/authorization/PulsarAuthorizationProvider.java


PRODUCE: Final = "produce"
CONSUME: Final = "consume"
_ACTIONS: Final = frozenset({PRODUCE, CONSUME})
_WILDCARD: Final = "*"
_PARTITION: Final = re.compile(r"-partition-[0-9]+\Z")

# Actions by role.
Permissions = Mapping[str, AbstractSet[str]]


@dataclass(frozen=True, slots=True)
class NamespaceGrants:
    """The ``auth_policies`` of a namespace.

    Attributes:
        namespace: permissions on all its topics.
        topics: permissions by complete name of a topic, or of a partitioned topic.
    """

    namespace: Permissions = field(default_factory=dict, hash=False)
    topics: Mapping[str, Permissions] = field(default_factory=dict, hash=False)

    def allow_topic(self, role: str, topic: Topic, *, is_wildcard: bool) -> bool:
        """Whether a role may look a topic up: it may produce to it, or consume from it."""
        if _has(self.namespace, role, is_wildcard=is_wildcard):
            return True
        if not self.topics:
            return False
        name = str(topic)
        parent = _PARTITION.sub("", name)
        return _has(self.topics.get(name, {}), role, is_wildcard=is_wildcard) or (
            # As in Pulsar, patterns of the partitioned topic are not for its partitions.
            parent != name and _has(self.topics.get(parent, {}), role, is_wildcard=False)
        )

    def allow_list(self, role: str, *, is_wildcard: bool) -> bool:
        """Whether a role may list topics and bundles: it may produce or consume everywhere."""
        return _has(self.namespace, role, is_wildcard=is_wildcard)


@dataclass(frozen=True, slots=True)
class Grants:
    """What is granted at one place: to the admins of a tenant, and in one of its namespaces."""

    admin_roles: frozenset[str] = frozenset()
    namespace: NamespaceGrants = field(default_factory=NamespaceGrants)


def _has(permissions: Permissions, role: str, *, is_wildcard: bool) -> bool:
    """Whether a role may produce or consume; with wildcards also by a prefix or a suffix."""
    if not _ACTIONS.isdisjoint(permissions.get(role, frozenset())):
        return True
    return is_wildcard and any(
        _matches(pattern, role) and not _ACTIONS.isdisjoint(granted)
        for pattern, granted in permissions.items()
    )


def _matches(pattern: str, role: str) -> bool:
    is_prefix = pattern.endswith(_WILDCARD) and role.startswith(pattern[:-1])
    return is_prefix or (pattern.startswith(_WILDCARD) and role.endswith(pattern[1:]))


# Decisions: whether a client may perform an operation on a resource.
#
# Ready roles have rights in the whole cluster. With ``authorizationEnabled`` everything else
# needs a grant that Pulsar stores; without, every authenticated role may read and look up.


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


# Authorization of a client, with the grants of its resource.


# The grants at a resource; empty for a tenant or a namespace that does not exist.
GrantsOf = Callable[[Resource], Awaitable[Grants]]

# The same, where memory has them; None: `GrantsOf` reads them.
RecallGrants = Callable[[Resource], Grants | None]

# Whether `RecallGrants` would return these again.
AreCurrent = Callable[[Grants], bool]

# Grows with each change of what `RecallGrants` answers from.
GrantsVersion = Callable[[], int]

_NO_GRANTS = Grants()


@dataclass(frozen=True, slots=True)
class KnownRight:
    """What a client was allowed last, by the grants of a namespace.

    Attributes:
        is_on_all: whether it may perform the operation on every topic of the namespace.
    """

    operation: Operation
    namespace: Namespace
    grants: Grants
    is_on_all: bool


@dataclass(slots=True)
class Client:
    """An authenticated client.

    Attributes:
        role: that it has proven.
        original: principal for which a proxy acts; empty: the client acts for itself.
        right: see `Authorization.knows_right`.
    """

    role: str
    original: str = ""
    right: KnownRight | None = field(default=None, compare=False, repr=False)

    @property
    def acting_role(self) -> str:
        """The role that asked for the request, as the log and the history name it."""
        return self.original or self.role


class Authorization:
    """Decides by the policy and the stored grants."""

    def __init__(
        self,
        policy: AuthorizationPolicy,
        grants_of: GrantsOf,
        recall_grants: RecallGrants = lambda _: None,
        are_current: AreCurrent = lambda _: False,
        grants_version: GrantsVersion = lambda: 0,
    ) -> None:
        self.policy = policy
        self._grants_of = grants_of
        self._recall_grants = recall_grants
        self._are_current = are_current
        self._grants_version = grants_version

    @property
    def version(self) -> int:
        """Grows with each change of what `recall` answers from."""
        return self._grants_version()

    def allows_everywhere(self, client: Client, operation: Operation) -> bool:
        """Whether a client may perform an operation on every resource, whatever is granted."""
        policy = self.policy
        return policy.allows_everywhere(client.role, operation) and (
            not client.original or policy.allows_everywhere(client.original, operation)
        )

    def knows_right(self, client: Client, operation: Operation, namespace: Namespace) -> bool:
        """Whether `recall` has allowed a client the same on any topic of the same namespace.

        Clients look up many topics of one namespace. To decide again takes several times as long
        as to see that the grants are the same.
        """
        right = client.right
        return (
            right is not None
            and right.is_on_all
            # One object stands for a namespace; of another one, `recall` decides.
            and right.namespace is namespace
            and right.operation is operation
            and self._are_current(right.grants)
        )

    def recall(self, client: Client, operation: Operation, resource: Resource) -> Decision | None:
        """As `allows`, from memory; None: `allows` decides."""
        decision = self._recall(client.role, operation, resource)
        is_allowed = decision is not None and decision.is_allowed
        if is_allowed and client.original and client.original != client.role:
            return self._recall(client.original, operation, resource)
        if is_allowed and resource.topic is not None:
            self._note_right(client, operation, resource.topic.namespace)
        return decision

    def _note_right(self, client: Client, operation: Operation, namespace: Namespace) -> None:
        """Keep what a client was allowed on a topic, for `knows_right`."""
        right, whole = client.right, Resource.of_namespace(namespace)
        grants = self._recall_grants(whole)
        if grants is None or (right is not None and right.grants is grants):
            return
        is_on_all = self.policy.decide(client.role, operation, whole, grants).is_allowed
        client.right = KnownRight(operation, namespace, grants, is_on_all)

    async def allows(self, client: Client, operation: Operation, resource: Resource) -> Decision:
        """Whether a client may perform an operation; a proxy only what both its roles may.

        Raises:
            InvalidName: the tenant of the resource has no valid name.
            BrokerCtlError: the grants cannot be read.
        """
        decision = await self._decide(client.role, operation, resource)
        if decision.is_allowed and client.original and client.original != client.role:
            decision = await self._decide(client.original, operation, resource)
        return decision

    def _recall(self, role: str, operation: Operation, resource: Resource) -> Decision | None:
        policy = self.policy
        # The grants first: callers know already that this role may not do it everywhere.
        grants = self._recall_grants(resource) if policy.is_enabled and resource.tenant else None
        if grants is None and policy.needs_grants(role, operation, resource):
            return None
        return policy.decide(role, operation, resource, grants or _NO_GRANTS)

    async def _decide(self, role: str, operation: Operation, resource: Resource) -> Decision:
        policy = self.policy
        if not policy.needs_grants(role, operation, resource):
            # In most clusters this is the way of most requests.
            return policy.decide(role, operation, resource, _NO_GRANTS)
        return policy.decide(role, operation, resource, await self._grants_of(resource))


async def no_grants(_: Resource) -> Grants:
    """Nothing is granted, where no cluster's policies are at hand."""
    return _NO_GRANTS


__all__ = ["ALLOWED", "Authorization", "Client", "GrantsOf", "RecallGrants", "no_grants"]
