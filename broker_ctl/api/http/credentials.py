"""Bearer tokens and the roles behind them.

The secret file has one ``role:secret`` a line; empty lines and lines that begin with ``#`` are
skipped. A bearer token is the secret alone. All brokers have the same file: a broker sends its
peers the first secret of a super user.
"""

import hmac
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from broker_ctl.errors import SettingsError

_MIN_LENGTH: Final = 16


def token_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Number, role and token of each line of a secret file.

    The role ends at the first colon: a token may contain further ones. A line without a colon is
    a token alone, and its role is empty.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            role, colon, token = line.partition(":")
            yield (number, role.strip(), token.strip()) if colon else (number, "", line.strip())


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
            SettingsError: a malformed line or a secret of two roles, by the number of the line
                and without its content; or no role in the file is a super user, so that no
                client could change anything.
        """
        secrets: list[tuple[str, bytes]] = []
        owners: dict[str, tuple[str, int]] = {}
        for number, role, secret in token_lines(text):
            is_plain = secret.isascii() and secret.isprintable() and " " not in secret
            if not role or not is_plain or len(secret) < _MIN_LENGTH:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: role:secret expected, the secret with "
                    f"at least {_MIN_LENGTH} printable ASCII characters and no blanks"
                )
            owner, earlier = owners.setdefault(secret, (role, number))
            if owner != role:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: has the secret of line {earlier}, of "
                    "another role; each role needs a secret of its own"
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
