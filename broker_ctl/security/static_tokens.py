"""Static bearer tokens and the roles behind them.

The secret file has one ``role:secret`` a line; empty lines and lines that begin with ``#`` are
skipped. A bearer token is the secret alone. In place of a secret, a line may have its hash:
``role:$sha256$`` and 64 hexadecimal digits. A reader of the file then has no token: SHA-256 is as
good as a slow hash for a token that is too long to guess, and costs an unknown client's request
next to nothing.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from broker_ctl.errors import SettingsError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.principal import Principal, Proof

_MIN_LENGTH: Final = 16
HASH_PREFIX: Final = "$sha256$"
_HASH: Final = re.compile(r"[0-9a-f]{64}")
# Of a token that is hashed: a shorter one, or one of few characters, could be guessed from there.
_MIN_HASHED_LENGTH: Final = 32
_MIN_DISTINCT: Final = 10


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
    """Roles by token.

    Attributes:
        secrets: role and token of each line with a token in the clear.
        digests: role and SHA-256 of each line.
    """

    secrets: tuple[tuple[str, bytes], ...] = field(repr=False)
    digests: tuple[tuple[str, bytes], ...] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the content of a secret file.

        Raises:
            SettingsError: a malformed line or a secret of two roles, by the number of the line
                and without its content.
        """
        secrets: list[tuple[str, bytes]] = []
        digests: list[tuple[str, bytes]] = []
        owners: dict[bytes, tuple[str, int]] = {}
        for number, role, secret in token_lines(text):
            is_plain = secret.isascii() and secret.isprintable() and " " not in secret
            if not role or not is_plain or len(secret) < _MIN_LENGTH:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: role:secret expected, the secret with "
                    f"at least {_MIN_LENGTH} printable ASCII characters and no blanks"
                )
            digest = _digest(secret, number)
            owner, earlier = owners.setdefault(digest, (role, number))
            if owner != role:
                raise SettingsError(
                    f"tokenSecretKeyFile, line {number}: has the secret of line {earlier}, of "
                    "another role; each role needs a secret of its own"
                )
            digests.append((role, digest))
            if not is_hash(secret):
                secrets.append((role, secret.encode()))
        return cls(tuple(secrets), tuple(digests))

    def of_roles(self, roles: Collection[str]) -> Iterator[bytes]:
        """The tokens of these roles that are in the clear, in the order of the file."""
        return (secret for role, secret in self.secrets if role in roles)

    def first_of(self, roles: Collection[str]) -> str:
        """The first token of one of these roles; empty: the file has only hashes of theirs.

        Raises:
            SettingsError: none of them has a token, so that no client could change anything.
        """
        if not any(role in roles for role, _ in self.digests):
            raise SettingsError("tokenSecretKeyFile: none of its roles is one of superUserRoles")
        return next(self.of_roles(roles), b"").decode()

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`. Lasts equally long for known and unknown tokens."""
        if not evidence.token:
            return None
        found, given = None, hashlib.sha256(evidence.token).digest()
        for role, digest in self.digests:
            if hmac.compare_digest(digest, given):
                found = role
        return None if found is None else Principal(found, Proof.STATIC_TOKEN)


def is_hash(secret: str) -> bool:
    """Whether the secret of a line is the hash of a token."""
    return secret.startswith(HASH_PREFIX)


def hash_token(token: str) -> str:
    """The hash of a token, as a line has it in place of the token.

    Raises:
        ValueError: the token could be guessed from its hash, or is not a token.
    """
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token has printable ASCII characters and no blanks")
    if len(token) < _MIN_HASHED_LENGTH or len(set(token)) < _MIN_DISTINCT:
        raise ValueError(
            f"a token of fewer than {_MIN_HASHED_LENGTH} random characters could be guessed from "
            "its hash"
        )
    return HASH_PREFIX + hashlib.sha256(token.encode()).hexdigest()


def _digest(secret: str, number: int) -> bytes:
    if not is_hash(secret):
        return hashlib.sha256(secret.encode()).digest()
    digits = secret.removeprefix(HASH_PREFIX)
    if not _HASH.fullmatch(digits):
        raise SettingsError(
            f"tokenSecretKeyFile, line {number}: 64 hexadecimal digits expected after {HASH_PREFIX}"
        )
    return bytes.fromhex(digits)
