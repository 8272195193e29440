"""The secret keys that all daemons of a cluster share, their file, and what is signed with them."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from broker_ctl.errors import SettingsError

# The secret keys that all daemons of a cluster share, and what is signed with them.
#
# A signature is HMAC-SHA256 (RFC 2104) behind the id of its key. Each use has a context of its
# own, by which a key of its own is derived: what was signed for one use counts for no other.


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


# The file of a cluster's keys: what it may hold, and the steps of replacing a key.
#
# A key in base64 (RFC 4648) a line; the first one signs, all of them verify. Instead of a key,
# one line may say `DERIVED`: the keys that are derived from what all daemons have to verify
# tokens, for a cluster that moves from those to a file. Empty lines and lines that begin with
# ``#`` are skipped.


DERIVED: Final = "derived"
_MAX_KEY_BYTES: Final = 1024
# Fewer different bytes among 32 do not come from a random source.
_MIN_DISTINCT: Final = 16
_NAME: Final = "clusterKeyFile"


@dataclass(frozen=True, slots=True)
class _KeyLine:
    """One line. A key, if it has an id: of that secret, or, without one, of the derived keys."""

    text: str
    key_id: str = ""
    secret: bytes = b""


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The content of a file; each change gives another one."""

    lines: tuple[_KeyLine, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a file.

        Raises:
            SettingsError: a malformed, short or repeated key, by the number of its line and without
                its content; or too many.
        """
        lines: list[_KeyLine] = []
        for number, line in enumerate(text.splitlines(), 1):
            found = _parse_line(line, number)
            if found.key_id and found.key_id in (known.key_id for known in lines):
                raise SettingsError(f"{_NAME}, line {number}: repeats an earlier key")
            lines.append(found)
        if sum(bool(line.key_id) for line in lines) > MAX_KEYS:
            raise SettingsError(f"{_NAME}: holds more than {MAX_KEYS} keys")
        return cls(tuple(lines))

    def __str__(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)

    @property
    def ids(self) -> list[str]:
        """The ids of the keys, in eight hexadecimal digits, in their order."""
        return [line.key_id for line in self.lines if line.key_id]

    def require_keys(self) -> None:
        """Refuse an empty file.

        Raises:
            SettingsError: it holds no key.
        """
        if not self.ids:
            raise SettingsError(f"{_NAME}: holds no key; broker-ctl cluster-key create")

    def keys(self, derive: Callable[[], Sequence[bytes]]) -> ClusterKeys:
        """The keys; ``derive`` makes those that the file only mentions.

        Raises:
            SettingsError: it holds no key, or there are no secrets to derive keys from.
        """
        self.require_keys()
        found: list[Key] = []
        for line in self.lines:
            if line.secret:
                found.append(Key.of(line.secret))
            elif line.key_id:
                derived = derive()
                if not derived:
                    raise SettingsError(
                        f"{_NAME}: {DERIVED}: there are no secrets of tokens to derive from"
                    )
                found += (Key.of(secret, is_derived=True) for secret in derived)
        return ClusterKeys(tuple(found))

    def add(self, line: str) -> Self:
        """With another key behind all others.

        Raises:
            SettingsError: it is not a key, or one too many.
        """
        return self.parse(f"{self}{line}")

    def add_derived(self) -> Self:
        """With the derived keys behind all others."""
        return self.add(DERIVED)

    def promote(self, key_id: str) -> Self:
        """With this key before all others.

        Raises:
            SettingsError: there is no such key.
        """
        moved = self._find(key_id)
        others = [line for line in self.lines if line is not moved]
        first = next((at for at, line in enumerate(others) if line.key_id), len(others))
        return type(self)((*others[:first], moved, *others[first:]))

    def remove(self, key_id: str) -> Self:
        """Without this key.

        Raises:
            SettingsError: there is no such key, or it is the one that signs.
        """
        removed = self._find(key_id)
        if key_id == self.ids[0]:
            raise SettingsError(f"{key_id} signs: promote another key first")
        return type(self)(tuple(line for line in self.lines if line is not removed))

    def _find(self, key_id: str) -> _KeyLine:
        for line in self.lines:
            if key_id and line.key_id == key_id:
                return line
        known = ", ".join(self.ids) or "none"
        raise SettingsError(f"no key has the id {key_id!r}; the keys are {known}")


def new_key_line() -> str:
    """A new random key, as a line of the file."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _parse_line(text: str, number: int) -> _KeyLine:
    stripped = text.strip()
    if not stripped or text.startswith("#"):
        return _KeyLine(text)
    if stripped == DERIVED:
        return _KeyLine(text, DERIVED)
    try:
        secret = base64.b64decode(stripped, validate=True)
    except binascii.Error:
        secret = b""
    is_random = len(set(secret)) >= _MIN_DISTINCT
    if not KEY_BYTES <= len(secret) <= _MAX_KEY_BYTES or not is_random:
        raise SettingsError(
            f"{_NAME}, line {number}: a key of {KEY_BYTES} to {_MAX_KEY_BYTES} random bytes "
            "in base64 expected; broker-ctl cluster-key create makes one"
        )
    return _KeyLine(text, Key.of(secret).key_id.hex(), secret)
