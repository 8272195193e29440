"""The key that verifies JSON Web Tokens, and the algorithms that it may be used with.

The algorithms belong to the key, not to the token: a token that names another family, or ``none``,
is refused, and a public key is never taken as the secret of an HMAC (RFC 8725, section 3.1).
"""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    load_der_public_key,
    load_pem_public_key,
)

from broker_ctl.errors import SettingsError

_MIN_SECRET_BYTES: Final = 32
_MIN_RSA_BITS: Final = 2048
PEM: Final = b"-----BEGIN"
_HASH_BITS: Final = (256, 384, 512)
_HMAC: Final = tuple(f"HS{bits}" for bits in _HASH_BITS)
# RFC 7518, section 3.4.
_CURVE_ALGORITHMS: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

PublicKey = RSAPublicKey | EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class JwtKey:
    """A verification key."""

    key: bytes | PublicKey = field(repr=False)
    algorithms: tuple[str, ...]

    @classmethod
    def secret(cls, content: bytes) -> Self:
        """A secret of HMAC: the bytes as they are, as Pulsar takes them.

        Raises:
            SettingsError: it is too short (RFC 7518, section 3.2), or a PEM, not a secret.
        """
        if len(content) < _MIN_SECRET_BYTES:
            raise SettingsError(f"a secret key has at least {_MIN_SECRET_BYTES} bytes")
        if content.lstrip().startswith(PEM):
            raise SettingsError("is a PEM file, not a secret key")
        return cls(content, _HMAC)

    @classmethod
    def public(cls, content: bytes, algorithm: str = "") -> Self:
        """A public key (X.509 SubjectPublicKeyInfo): DER, base64 of DER, or PEM; for one algorithm.

        Without an algorithm, for those of its own family.

        Raises:
            SettingsError: it is not such a key, or does not fit the algorithm.
        """
        key = _load_public(content)
        if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
            raise SettingsError(f"an RSA key has at least {_MIN_RSA_BITS} bits")
        family = "RS" if isinstance(key, RSAPublicKey) else "ES"
        if not algorithm:
            return cls(key, tuple(f"{family}{bits}" for bits in _HASH_BITS))
        if not algorithm.startswith(family):
            raise SettingsError(f"does not fit tokenPublicAlg={algorithm}")
        return cls(key, (algorithm,))


def algorithms_of(key: PublicKey) -> tuple[str, ...]:
    """The algorithms that a key verifies; none: it is too short, or of another curve."""
    if isinstance(key, RSAPublicKey):
        is_long = key.key_size >= _MIN_RSA_BITS
        return tuple(f"RS{bits}" for bits in _HASH_BITS) if is_long else ()
    algorithm = _CURVE_ALGORITHMS.get(key.curve.name)
    return () if algorithm is None else (algorithm,)


def _load_public(content: bytes) -> PublicKey:
    try:
        if content.lstrip().startswith(PEM):
            key = load_pem_public_key(content)
        else:
            try:
                key = load_der_public_key(content)
            except ValueError:
                der = base64.b64decode(b"".join(content.split()), validate=True)
                key = load_der_public_key(der)
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        raise SettingsError("holds no public key as DER, base64 or PEM") from None
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey):
        raise SettingsError("is neither a key of RSA nor of an elliptic curve")
    return key
