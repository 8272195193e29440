"""The secret keys that all daemons of a cluster share, and what is signed with them.

A signature is HMAC-SHA256 (RFC 2104) behind the id of its key. Each use has a context of its own,
by which a key of its own is derived: what was signed for one use counts for no other.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

KEY_BYTES: Final = 32
MAX_KEYS: Final = 16
_ID_BYTES: Final = 4
_ID_CONTEXT: Final = b"broker-ctl key id"
_USE_CONTEXT: Final = b"broker-ctl use\0"
_DERIVED: Final = b"broker-ctl cluster key\0"
# RFC 7914: 16 MiB and some 50 ms for each guess at a token from a captured signature.
_SCRYPT_N: Final = 1 << 14
_SCRYPT_R: Final = 8
_SCRYPT_P: Final = 1


@dataclass(frozen=True, slots=True)
class Key:
    """One key, with the id that its signatures begin with."""

    key_id: bytes
    secret: bytes = field(repr=False)
    is_derived: bool = False

    @classmethod
    def of(cls, secret: bytes, *, is_derived: bool = False) -> Self:
        """A key of raw bytes; ``is_derived``: they come from a bearer token."""
        key_id = hmac.digest(secret, _ID_CONTEXT, "sha256")[:_ID_BYTES]
        return cls(key_id, secret, is_derived)

    @property
    def name(self) -> str:
        """What logs and metrics call it; not its id if that would confirm guesses of a token."""
        return "derived" if self.is_derived else self.key_id.hex()

    def sign(self, context: str, message: bytes) -> bytes:
        """See `ClusterKeys.sign`."""
        derived = hmac.digest(self.secret, _USE_CONTEXT + context.encode(), "sha256")
        return self.key_id + hmac.digest(derived, message, "sha256")


class SigningKeys(Protocol):
    """What `ClusterKeys` do, also where they are replaced at run time."""

    def sign(self, context: str, message: bytes) -> bytes:
        """See `ClusterKeys.sign`."""
        ...

    def verify(self, context: str, message: bytes, signature: bytes) -> bool:
        """See `ClusterKeys.verify`."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """One or several keys: the first signs, all verify.

    To rotate, a new key is appended to every daemon's file, then moved to the first line
    everywhere, and then the old one is removed everywhere.
    """

    keys: tuple[Key, ...]

    @classmethod
    def of(cls, raw: Sequence[bytes], *, is_derived: bool = False) -> Self:
        """Keys of raw bytes, the signing one first."""
        return cls(tuple(Key.of(secret, is_derived=is_derived) for secret in raw))

    @property
    def names(self) -> tuple[str, ...]:
        """See `Key.name`; the signing one first."""
        return tuple(dict.fromkeys(key.name for key in self.keys))

    def sign(self, context: str, message: bytes) -> bytes:
        """The signature of a message by the first key; 36 bytes.

        ``context`` is a constant that names the use, such as ``peer-request``.
        """
        return self.keys[0].sign(context, message)

    def verify(self, context: str, message: bytes, signature: bytes) -> bool:
        """Whether one of the keys made a signature; compares in constant time."""
        key_id = signature[:_ID_BYTES]
        # The id is public. A MAC is computed only under keys that have it.
        return any(
            hmac.compare_digest(key.sign(context, message), signature)
            for key in self.keys
            if key.key_id == key_id
        )


def derive_keys(cluster: str, tokens: Iterable[bytes]) -> tuple[bytes, ...]:
    """Keys from the tokens that all daemons of a cluster have, by scrypt (RFC 7914).

    The holder of a super user's token can sign with them, and could do everything before. Takes
    some 50 ms a token; tokens after the sixteenth are left out.
    """
    salt = _DERIVED + cluster.encode()
    distinct = tuple(dict.fromkeys(tokens))[:MAX_KEYS]
    return tuple(
        hashlib.scrypt(token, salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=KEY_BYTES)
        for token in distinct
    )
