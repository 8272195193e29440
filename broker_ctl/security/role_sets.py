"""Roles with rights in the whole cluster, by their settings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoleSets:
    """Members of ``superUserRoles`` and ``readOnlyRoles``."""

    super_users: frozenset[str] = frozenset()
    readers: frozenset[str] = frozenset()

    def is_super_user(self, role: str) -> bool:
        """Whether a role may do everything."""
        return role in self.super_users

    def may_read(self, role: str) -> bool:
        """Whether a role may read what operators read."""
        return role in self.super_users or role in self.readers
