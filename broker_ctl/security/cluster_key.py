"""The secret keys that all daemons of a cluster share, and what is signed with them.

A signature is HMAC-SHA256 (RFC 2104) behind the id of its key. Each use has a context of its own,
by which a key of its own is derived: what was signed for one use counts for no other.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from broker_ctl.errors import SettingsError

KEY_BYTES: Final = 32
_MAX_KEY_BYTES: Final = 1024
_MAX_KEYS: Final = 16
# Fewer different bytes among 32 do not come from a random source.
_MIN_DISTINCT: Final = 16
_ID_BYTES: Final = 4
_ID_CONTEXT: Final = b"broker-ctl key id"
_USE_CONTEXT: Final = b"broker-ctl use\0"
_DERIVED: Final = b"broker-ctl cluster key\0"
# RFC 7914: 16 MiB and some 50 ms for each guess at a token from a captured signature.
_SCRYPT_N: Final = 1 << 14
_SCRYPT_R: Final = 8
_SCRYPT_P: Final = 1


@dataclass(frozen=True, slots=True)
class _Key:
    """One key, with the id that its signatures begin with."""

    key_id: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> Self:
        return cls(hmac.digest(secret, _ID_CONTEXT, "sha256")[:_ID_BYTES], secret)

    def sign(self, context: str, message: bytes) -> bytes:
        derived = hmac.digest(self.secret, _USE_CONTEXT + context.encode(), "sha256")
        return self.key_id + hmac.digest(derived, message, "sha256")


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """One or several keys: the first signs, all verify.

    To rotate, a new key is appended to every daemon's file, then moved to the first line
    everywhere, and then the old one is removed everywhere.

    Attributes:
        is_derived: whether they come from bearer tokens, for lack of a file of keys.
    """

    keys: tuple[_Key, ...]
    is_derived: bool = False

    @classmethod
    def of(cls, raw: Sequence[bytes], *, is_derived: bool = False) -> Self:
        """Keys of raw bytes, the signing one first."""
        return cls(tuple(map(_Key.of, raw)), is_derived)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the content of clusterKeyFile: a key in base64 (RFC 4648) a line.

        Empty lines and lines that begin with ``#`` are skipped.

        Raises:
            SettingsError: a malformed, short or repeated key, by the number of its line and without
                its content; or no key, or too many.
        """
        found: list[bytes] = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                secret = _decoded(line.strip(), number)
                if secret in found:
                    raise SettingsError(f"clusterKeyFile, line {number}: repeats an earlier key")
                found.append(secret)
        if not found:
            raise SettingsError("clusterKeyFile: holds no key; broker-ctl cluster-key create")
        if len(found) > _MAX_KEYS:
            raise SettingsError(f"clusterKeyFile: holds more than {_MAX_KEYS} keys")
        return cls.of(found)

    @classmethod
    def derived(cls, cluster: str, tokens: Iterable[bytes]) -> Self:
        """Keys from the tokens that all daemons of a cluster have, by scrypt (RFC 7914).

        The holder of a super user's token can sign with them, and could do everything before. Takes
        some 50 ms a token; tokens after the sixteenth are left out.
        """
        salt = _DERIVED + cluster.encode()
        distinct = tuple(dict.fromkeys(tokens))[:_MAX_KEYS]
        stretched = [
            hashlib.scrypt(token, salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=KEY_BYTES)
            for token in distinct
        ]
        return cls.of(stretched, is_derived=True)

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


def _decoded(text: str, number: int) -> bytes:
    try:
        secret = base64.b64decode(text, validate=True)
    except binascii.Error:
        secret = b""
    is_random = len(set(secret)) >= _MIN_DISTINCT
    if not KEY_BYTES <= len(secret) <= _MAX_KEY_BYTES or not is_random:
        raise SettingsError(
            f"clusterKeyFile, line {number}: a key of {KEY_BYTES} to {_MAX_KEY_BYTES} random bytes "
            "in base64 expected; broker-ctl cluster-key create makes one"
        )
    return secret


def new_key_line() -> str:
    """A new random key, as a line of clusterKeyFile."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
