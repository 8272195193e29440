"""Bearer tokens and the roles behind them.

The secret file has one ``role:secret`` a line; empty lines and lines that begin with ``#`` are
skipped. A bearer token is the secret alone. All brokers have the same file: a broker sends its
peers the first secret of a super user.
"""

import hmac
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Self

from broker_ctl.errors import SettingsError

_MIN_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """Roles by token, and the roles of super users and of readers."""

    secrets: tuple[tuple[str, bytes], ...] = field(repr=False)
    super_users: frozenset[str]
    readers: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, super_users: Collection[str], readers: Collection[str] = ()) -> Self:
        """Read the content of a secret file.

        Raises:
            SettingsError: a malformed line, by its number and without its content; or no role in
                the file is a super user, so that no client could change anything.
        """
        secrets = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            role, _, secret = (part.strip() for part in line.partition(":"))
            is_plain = secret.isascii() and secret.isprintable() and " " not in secret
            if not role or not is_plain or len(secret) < _MIN_LENGTH:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: role:secret expected, the secret with "
                    f"at least {_MIN_LENGTH} printable ASCII characters and no blanks"
                )
            secrets.append((role, secret.encode()))
        if not any(role in super_users for role, _ in secrets):
            raise SettingsError("tokenSecretKeyFile: none of its roles is one of superUserRoles")
        return cls(tuple(secrets), frozenset(super_users), frozenset(readers))

    @property
    def own_token(self) -> str:
        """The token that this broker sends to its peers."""
        return next(secret.decode() for role, secret in self.secrets if role in self.super_users)

    def role_of(self, token: bytes) -> str | None:
        """The role of a token; None: unknown. Lasts equally long for known and unknown tokens."""
        found = None
        for role, secret in self.secrets:
            if hmac.compare_digest(secret, token):
                found = role
        return found

    def is_super_user(self, role: str) -> bool:
        """Whether a role may do everything."""
        return role in self.super_users

    def may_read(self, role: str) -> bool:
        """Whether a role may read what operators read."""
        return role in self.super_users or role in self.readers
