"""JSON Web Tokens (RFC 7519) as Pulsar has them: keys, tokens, and new ones of both."""

import base64
import binascii
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from broker_ctl.codec import decode_object
from broker_ctl.errors import CorruptRecord, SettingsError
from broker_ctl.security.authentication import Evidence, Principal, Proof

# The key that verifies JSON Web Tokens, and the algorithms that it may be used with.
#
# The algorithms belong to the key, not to the token: a token that names another family, or
# ``none``, is refused, and a public key is never taken as the secret of an HMAC (RFC 8725,
# section 3.1).


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


# JSON Web Key Sets (RFC 7517): public keys, of which a token names one by its id.


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


# JSON Web Tokens (RFC 7519), as Pulsar's AuthenticationProviderToken accepts them.


_MAX_TOKEN_BYTES: Final = 8192
_MAX_ROLE_LENGTH: Final = 256
_MAX_CACHED: Final = 1024


@dataclass(frozen=True, slots=True)
class JwtRules:
    """Which tokens are accepted.

    Attributes:
        key: a key, or a set of which each token names one.
        role_claim: the claim with the role; of a list, its first item.
        audience_claim: the claim that must hold ``audience``, alone or in a list.
        audience: empty: tokens for every audience.
        leeway_s: by how much the clocks of issuer and broker may differ.
        audiences: the token must be for one of these, if there are any.
        issuer: empty: the issuer is not checked.
        required: claims that must be there.
    """

    key: JwtKey | KeySet
    role_claim: str = "sub"
    audience_claim: str = "aud"
    audience: str = ""
    leeway_s: float = 0.0
    audiences: frozenset[str] = frozenset()
    issuer: str = ""
    required: tuple[str, ...] = ()


class JwtTokens:
    """Verifies tokens. Valid ones are remembered until they expire, up to a number.

    Args:
        now_s: Unix time in seconds, for the expiry of those that are remembered.
    """

    def __init__(self, rules: JwtRules, now_s: Callable[[], float]) -> None:
        self._rules = rules
        self._now_s = now_s
        self._valid: OrderedDict[bytes, Principal] = OrderedDict()

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        token = evidence.token
        if not token or len(token) > _MAX_TOKEN_BYTES or token.count(b".") != 2:
            return None
        digest = hashlib.sha256(token).digest()
        principal = self._valid.get(digest)
        if principal is not None:
            if not principal.is_expired(self._now_s()):
                self._valid.move_to_end(digest)
                return principal
            del self._valid[digest]
        principal = self._verify(token)
        if principal is not None:
            self._valid[digest] = principal
            if len(self._valid) > _MAX_CACHED:
                self._valid.popitem(last=False)
        return principal

    def _verify(self, token: bytes) -> Principal | None:
        rules = self._rules
        key = rules.key.find(token) if isinstance(rules.key, KeySet) else rules.key
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                issuer=rules.issuer or None,
                leeway=rules.leeway_s,
                # Pulsar's claim may be another one.
                options={"verify_aud": False, "require": list(rules.required)},
            )
            ends = claims.get("exp")
            expires_at_s = None if ends is None else float(ends) + rules.leeway_s
        # Clients choose the text of a token: too deep, or with numbers that are too large.
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
            return None
        role = _role_of(claims, rules.role_claim)
        if role is None or not _is_meant(claims, rules):
            return None
        token_id = claims.get("jti")
        if not isinstance(token_id, str) or len(token_id) > _MAX_ROLE_LENGTH:
            token_id = ""
        return Principal(role, Proof.JWT, expires_at_s, token_id)


def _role_of(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ROLE_LENGTH:
        return None
    return value if value.isprintable() else None


def _is_meant(claims: Mapping[str, Any], rules: JwtRules) -> bool:
    wanted = rules.audiences or ({rules.audience} if rules.audience else frozenset())
    if not wanted:
        return True
    value = claims.get(rules.audience_claim)
    given = value if isinstance(value, list) else [value]
    return any(isinstance(each, str) and each in wanted for each in given)


# New keys for JSON Web Tokens and new tokens, as ``bin/pulsar tokens`` makes them.
#
# A secret key is its bytes; a private key is PKCS#8 in DER (RFC 5208), a public one an X.509
# SubjectPublicKeyInfo in DER (RFC 5280, section 4.1): what a Pulsar broker reads.


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
class JwtKeyPair:
    """A new private key, and its public key; both in DER."""

    private: bytes = field(repr=False)
    public: bytes


def new_secret_key(algorithm: str) -> bytes:
    """A random secret for an algorithm of `SECRET_BYTES`."""
    return secrets.token_bytes(SECRET_BYTES[algorithm])


def new_key_pair(algorithm: str) -> JwtKeyPair:
    """A key pair for an algorithm of `RSA_BITS` or `CURVES`."""
    key: PrivateKey
    if algorithm in CURVES:
        key = ec.generate_private_key(CURVES[algorithm]())
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS[algorithm])
    return JwtKeyPair(
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
