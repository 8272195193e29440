"""Roles with rights in the whole cluster, by their settings."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.security.authorization.operations import Operation

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
