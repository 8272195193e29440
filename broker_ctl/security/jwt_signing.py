"""New keys for JSON Web Tokens and new tokens, as ``bin/pulsar tokens`` makes them.

A secret key is its bytes; a private key is PKCS#8 in DER (RFC 5208), a public one an X.509
SubjectPublicKeyInfo in DER (RFC 5280, section 4.1): what a Pulsar broker reads.
"""

import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
)

from broker_ctl.errors import SettingsError
from broker_ctl.security.jwt_keys import PEM, JwtKey

# Bytes of a secret, as long as the hash (RFC 7518, section 3.2).
SECRET_BYTES: Final[Mapping[str, int]] = {"HS256": 32, "HS384": 48, "HS512": 64}
# Pulsar's library makes keys of these sizes.
RSA_BITS: Final[Mapping[str, int]] = {"RS256": 2048, "RS384": 3072, "RS512": 4096}
# RFC 7518, section 3.4.
CURVES: Final[Mapping[str, type[ec.EllipticCurve]]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
}

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A new private key, and its public key; both in DER."""

    private: bytes = field(repr=False)
    public: bytes


def new_secret_key(algorithm: str) -> bytes:
    """A random secret for an algorithm of `SECRET_BYTES`."""
    return secrets.token_bytes(SECRET_BYTES[algorithm])


def new_key_pair(algorithm: str) -> KeyPair:
    """A key pair for an algorithm of `RSA_BITS` or `CURVES`."""
    key: PrivateKey
    if algorithm in CURVES:
        key = ec.generate_private_key(CURVES[algorithm]())
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS[algorithm])
    return KeyPair(
        key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    )


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that signs tokens, and the algorithm that it signs with."""

    key: bytes | PrivateKey = field(repr=False)
    algorithm: str

    @classmethod
    def secret(cls, content: bytes, algorithm: str | None = None) -> Self:
        """A secret, with the strongest algorithm that it is long enough for, or the one given.

        Raises:
            SettingsError: it is too short, or a PEM, not a secret.
        """
        JwtKey.secret(content)
        fitting = [name for name, size in SECRET_BYTES.items() if len(content) >= size]
        return cls(content, _chosen(fitting, algorithm, fitting[-1]))

    @classmethod
    def private(cls, content: bytes, algorithm: str | None = None) -> Self:
        """A private key: PKCS#8 as DER, base64 of DER, or PEM; without a password.

        Its algorithm is RS256, or that of its curve, or the one given.

        Raises:
            SettingsError: it is not such a key, or does not fit the algorithm.
        """
        key = _load_private(content)
        if isinstance(key, rsa.RSAPrivateKey):
            fitting = list(RSA_BITS)
        else:
            fitting = [name for name, curve in CURVES.items() if isinstance(key.curve, curve)]
            if not fitting:
                raise SettingsError(f"no algorithm signs with the curve {key.curve.name}")
        return cls(key, _chosen(fitting, algorithm, fitting[0]))

    def sign(
        self, subject: str, expires_at_s: int | None, headers: Mapping[str, str] | None = None
    ) -> str:
        """A token for a role; ``expires_at_s`` is Unix time, None: it does not expire."""
        claims: dict[str, Any] = {"sub": subject}
        if expires_at_s is not None:
            claims["exp"] = expires_at_s
        return jwt.encode(claims, self.key, self.algorithm, headers=dict(headers or {}))


def _chosen(fitting: list[str], algorithm: str | None, default: str) -> str:
    if algorithm is not None and algorithm not in fitting:
        raise SettingsError(f"does not fit {algorithm}: {', '.join(fitting)} would")
    return algorithm or default


def _load_private(content: bytes) -> PrivateKey:
    try:
        if content.lstrip().startswith(PEM):
            key = load_pem_private_key(content, password=None)
        else:
            try:
                key = load_der_private_key(content, password=None)
            except ValueError:
                der = base64.b64decode(b"".join(content.split()), validate=True)
                key = load_der_private_key(der, password=None)
    except TypeError:
        raise SettingsError("is encrypted with a password, which is not supported") from None
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        raise SettingsError("holds no private key (PKCS#8) as DER, base64 or PEM") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise SettingsError("is neither a key of RSA nor of an elliptic curve")
    return key
