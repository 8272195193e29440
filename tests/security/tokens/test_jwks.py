"""JSON Web Key Sets: a token is verified by the key that it names, and by no other."""

import base64
import hashlib
import hmac
import json
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from broker_ctl.errors import SettingsError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.jwt import JwtRules, JwtTokens, KeySet

RSA: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC: Final = ec.generate_private_key(ec.SECP384R1())
SECRET: Final = bytes(range(32))


def rsa_row(key: rsa.RSAPublicKey | rsa.RSAPrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    return {**RSAAlgorithm.to_jwk(key, as_dict=True), "kid": kid, **more}


def ec_row(kid: str, **more: Any) -> dict[str, Any]:
    return {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": kid, **more}


def oct_row(kid: str, secret: bytes = SECRET) -> dict[str, Any]:
    text = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    return {"kty": "oct", "k": text, "kid": kid, "alg": "HS256"}


def content(*rows: Any) -> bytes:
    return json.dumps({"keys": rows}).encode()


SET: Final = content(
    rsa_row(RSA.public_key(), "rsa"),
    rsa_row(OTHER.public_key(), "only-512", alg="RS512"),
    ec_row("ec"),
    rsa_row(RSA.public_key(), "encrypting", use="enc"),
    rsa_row(RSA, "private"),
    oct_row("oct"),
    {"kty": "RSA", "kid": "broken"},
    "nothing",
)


def role_of(key: Any, algorithm: str, *, keys: bytes = SET, **headers: Any) -> str | None:
    token = jwt.encode({"sub": "admin"}, key, algorithm, headers=headers)
    tokens = JwtTokens(JwtRules(KeySet.parse(keys)), lambda: 0.0)
    found = tokens.authenticate(Evidence(token.encode()))
    return None if found is None else found.role


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [
        (RSA, "RS256", "rsa"),
        (RSA, "RS512", "rsa"),
        (OTHER, "RS512", "only-512"),
        (EC, "ES384", "ec"),
    ],
)
def test_a_token_is_verified_by_the_key_that_it_names(key: Any, algorithm: str, kid: str) -> None:
    assert role_of(key, algorithm, kid=kid) == "admin"


@pytest.mark.parametrize(
    ("key", "algorithm", "headers"),
    [
        (OTHER, "RS256", {"kid": "rsa"}),
        (OTHER, "RS256", {"kid": "only-512"}),
        (RSA, "RS256", {}),
        (RSA, "RS256", {"kid": "unknown"}),
        (RSA, "RS256", {"kid": "encrypting"}),
        (RSA, "RS256", {"kid": "private"}),
        (RSA, "RS256", {"kid": "ec"}),
        # A secret that is published with the set is known to all.
        (SECRET, "HS256", {"kid": "oct"}),
        (None, "none", {"kid": "rsa"}),
        # Keys come from the set, never from the token (RFC 8725, section 3.5).
        (OTHER, "RS256", {"kid": "mine", "jwk": rsa_row(OTHER.public_key(), "mine")}),
        (OTHER, "RS256", {"kid": "mine", "jku": "https://attacker.example/keys"}),
    ],
)
def test_no_other_token_is_accepted(key: Any, algorithm: str, headers: dict[str, Any]) -> None:
    assert role_of(key, algorithm, **headers) is None


@pytest.mark.parametrize("encoding", [Encoding.DER, Encoding.PEM])
def test_a_public_key_is_not_the_secret_of_an_hmac(encoding: Encoding) -> None:
    secret = RSA.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    # By hand: no library signs with such a secret.
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "rsa"}, {"sub": "admin"})
    ]
    mac = hmac.digest(secret, b".".join(parts), hashlib.sha256)
    token = b".".join([*parts, base64.urlsafe_b64encode(mac).rstrip(b"=")])
    tokens = JwtTokens(JwtRules(KeySet.parse(SET)), lambda: 0.0)
    assert tokens.authenticate(Evidence(token)) is None


def test_the_first_of_keys_with_one_id_counts() -> None:
    keys = content(rsa_row(RSA.public_key(), "k"), rsa_row(OTHER.public_key(), "k"))
    assert role_of(RSA, "RS256", keys=keys, kid="k") == "admin"
    assert role_of(OTHER, "RS256", keys=keys, kid="k") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not a JSON Web Key Set"),
        (b"[]", "not a JSON Web Key Set"),
        (b'{"keys": {}}', "not a JSON Web Key Set"),
        (content(), "has no key"),
        (content(oct_row("a")), "has no key"),
        (content(*({"kid": str(number)} for number in range(101))), "more than 100 keys"),
        (b" " * (256 * 1024 + 1), "larger than 262144 bytes"),
    ],
)
def test_a_set_that_verifies_nothing_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        KeySet.parse(text)


@pytest.mark.parametrize("token", [b"", b"x", b"a.b.c", b"\xff.\xff.", b"W" * 4000 + b".."])
def test_no_text_of_a_client_is_an_error(token: bytes) -> None:
    assert KeySet.parse(SET).find(token) is None
