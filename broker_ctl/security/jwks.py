"""JSON Web Key Sets (RFC 7517): public keys, of which a token names one by its id."""

from collections.abc import Mapping
from typing import Any, Final, Self

import jwt

from broker_ctl.codec import decode_object
from broker_ctl.errors import CorruptRecord, SettingsError
from broker_ctl.security.jwt_keys import JwtKey, PublicKey, algorithms_of

MAX_BYTES: Final = 256 * 1024
_MAX_KEYS: Final = 100
_SIGNATURE: Final = "sig"


class KeySet:
    """Verification keys by id. Secrets of HMAC are not among them, whatever the set contains."""

    def __init__(self, keys: Mapping[str, JwtKey]) -> None:
        self._keys = dict(keys)

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Read a set; keys of other kinds, and those for encryption, are left out.

        Raises:
            SettingsError: it is not a set, is too large, or has no key that could verify a token.
        """
        if len(content) > MAX_BYTES:
            raise SettingsError(f"is larger than {MAX_BYTES} bytes")
        try:
            rows = decode_object(content).get("keys")
        except CorruptRecord:
            rows = None
        if not isinstance(rows, list):
            raise SettingsError("is not a JSON Web Key Set")
        if len(rows) > _MAX_KEYS:
            raise SettingsError(f"has more than {_MAX_KEYS} keys")
        found: dict[str, JwtKey] = {}
        for row in rows:
            key = _key_of(row)
            if key is not None:
                # Of keys with one id, an attacker could not choose; the first one counts.
                found.setdefault(row["kid"], key)
        if not found:
            raise SettingsError("has no key of RSA or of an elliptic curve with a kid")
        return cls(found)

    def find(self, token: bytes) -> JwtKey | None:
        """The key that a token names; None: none of these."""
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        # Clients choose the text of a token.
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        return self._keys.get(key_id) if isinstance(key_id, str) else None


def _key_of(row: Any) -> JwtKey | None:
    if not isinstance(row, dict) or not isinstance(row.get("kid"), str):
        return None
    if row.get("kty") not in {"RSA", "EC"} or row.get("use", _SIGNATURE) != _SIGNATURE:
        return None
    public = {name: value for name, value in row.items() if name != "alg"}
    try:
        key = jwt.PyJWK(public).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if not isinstance(key, PublicKey):
        # A private key, which its owner should not have published.
        return None
    fitting = algorithms_of(key)
    algorithm = row.get("alg")
    if algorithm is not None:
        fitting = tuple(name for name in fitting if name == algorithm)
    return JwtKey(key, fitting) if fitting else None
