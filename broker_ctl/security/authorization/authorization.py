"""Authorization of a client, with the grants of its resource."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from broker_ctl.core.model.names import Namespace
from broker_ctl.security.authorization.grants import Grants
from broker_ctl.security.authorization.operations import Operation
from broker_ctl.security.authorization.policy import ALLOWED, AuthorizationPolicy, Decision
from broker_ctl.security.authorization.resources import Resource

# The grants at a resource; empty for a tenant or a namespace that does not exist.
GrantsOf = Callable[[Resource], Awaitable[Grants]]

# The same, where memory has them; None: `GrantsOf` reads them.
RecallGrants = Callable[[Resource], Grants | None]

# Whether `RecallGrants` would return these again.
AreCurrent = Callable[[Grants], bool]

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
    ) -> None:
        self.policy = policy
        self._grants_of = grants_of
        self._recall_grants = recall_grants
        self._are_current = are_current

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
