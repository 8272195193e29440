"""Static bearer tokens and the roles behind them.

The secret file has one ``role:secret`` a line; empty lines and lines that begin with ``#`` are
skipped. A bearer token is the secret alone. All brokers have the same file: a broker sends its
peers the first secret of a super user.
"""

import hmac
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from broker_ctl.errors import SettingsError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.principal import Principal, Proof

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
class StaticTokens:
    """Roles by token."""

    secrets: tuple[tuple[str, bytes], ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the content of a secret file.

        Raises:
            SettingsError: a malformed line or a secret of two roles, by the number of the line
                and without its content.
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
        return cls(tuple(secrets))

    def of_roles(self, roles: Collection[str]) -> Iterator[bytes]:
        """The tokens of these roles, in the order of the file."""
        return (secret for role, secret in self.secrets if role in roles)

    def first_of(self, roles: Collection[str]) -> str:
        """The first token of one of these roles.

        Raises:
            SettingsError: none of them has a token, so that no client could change anything.
        """
        for secret in self.of_roles(roles):
            return secret.decode()
        raise SettingsError("tokenSecretKeyFile: none of its roles is one of superUserRoles")

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`. Lasts equally long for known and unknown tokens."""
        found = None
        for role, secret in self.secrets:
            if hmac.compare_digest(secret, evidence.token):
                found = role
        return None if found is None else Principal(found, Proof.STATIC_TOKEN)
