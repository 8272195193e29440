"""JSON Web Tokens: the stock client signs in with a good one, and with each kind of bad one not."""

import asyncio
import base64
import hashlib
import hmac
import importlib
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.errors import SettingsError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Authenticator, Evidence, Principal, Proof
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.jwt import JwtKey, JwtRules, JwtTokens, PublicKey
from broker_ctl.security.key_source import KeySource
from tests.api.binary.serving import Served, serving
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S

pulsar: Any = importlib.import_module("pulsar")

SECRET = bytes(range(32))
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
NOW_S = 4_000_000_000  # in 2096
AUDIENCE = "cluster-1"
CLAIMS = {"sub": "admin", "aud": AUDIENCE, "exp": NOW_S, "jti": "t1"}
TOPIC = "persistent://t/ns/x"


def encoded(key: PublicKey, encoding: Encoding) -> bytes:
    return key.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


DER = encoded(RSA.public_key(), Encoding.DER)
PEM = encoded(RSA.public_key(), Encoding.PEM)
RSA_KEY = JwtKey.public(DER, "RS256")


def provider(key: JwtKey = RSA_KEY, now: Callable[[], float] = lambda: 0.0) -> JwtTokens:
    return JwtTokens(JwtRules(key, audience=AUDIENCE), now)


def signed(claims: dict[str, object], key: object = RSA, algorithm: str = "RS256") -> str:
    return jwt.encode(claims, key, algorithm)  # type: ignore[arg-type]  # keys of each kind


def by_hand(header: dict[str, object], secret: bytes | None) -> str:
    """A token that no library would sign."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, CLAIMS)
    ]
    text = b".".join(parts)
    mac = b"" if secret is None else hmac.digest(secret, text, hashlib.sha256)
    return (text + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


GOOD = signed(CLAIMS)
FORGED = {
    "expired": signed({**CLAIMS, "exp": 1_000_000_000}),
    "not yet valid": signed({**CLAIMS, "nbf": NOW_S}),
    "another key": signed(CLAIMS, OTHER_RSA),
    "another audience": signed({**CLAIMS, "aud": "cluster-2"}),
    "no audience": signed({"sub": "admin", "exp": NOW_S}),
    "no role": signed({"aud": AUDIENCE, "exp": NOW_S}),
    "no algorithm": by_hand({"alg": "none", "typ": "JWT"}, None),
    "the public key as a secret": by_hand({"alg": "HS256", "typ": "JWT"}, PEM),
    "the DER as a secret": by_hand({"alg": "HS256", "typ": "JWT"}, DER),
    "another family": signed(CLAIMS, EC, "ES256"),
    "another algorithm of the family": signed(CLAIMS, RSA, "RS512"),
    "too deep": base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.x",
    "an end beyond all numbers": signed({**CLAIMS, "exp": 10**400}),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_token_proves_nothing(forged: str) -> None:
    assert provider().authenticate(Evidence(forged.encode())) is None


@pytest.mark.parametrize(
    ("key", "private", "algorithm"),
    [
        (JwtKey.secret(SECRET), SECRET, "HS256"),
        (JwtKey.public(DER, "RS256"), RSA, "RS256"),
        (JwtKey.public(PEM, "RS512"), RSA, "RS512"),
        (JwtKey.public(base64.encodebytes(DER), "RS256"), RSA, "RS256"),
        (JwtKey.public(encoded(EC.public_key(), Encoding.DER), "ES256"), EC, "ES256"),
    ],
)
def test_a_token_of_the_key_proves_its_role(key: JwtKey, private: object, algorithm: str) -> None:
    found = provider(key).authenticate(Evidence(signed(CLAIMS, private, algorithm).encode()))
    assert found == Principal("admin", Proof.JWT, NOW_S, "t1")


def test_a_remembered_token_ends_when_it_expires() -> None:
    now_s = [0.0]
    tokens = provider(now=lambda: now_s[0])
    soon = Evidence(signed(CLAIMS).encode())
    assert tokens.authenticate(soon) is not None
    tokens._valid[next(iter(tokens._valid))] = Principal("admin", Proof.JWT, 5.0)
    assert tokens.authenticate(soon) == Principal("admin", Proof.JWT, 5.0)
    now_s[0] = 5.0
    # Verified again, and not taken from memory.
    assert tokens.authenticate(soon) == Principal("admin", Proof.JWT, NOW_S, "t1")


def test_the_number_of_remembered_tokens_is_bounded() -> None:
    tokens = provider(JwtKey.secret(SECRET))
    for number in range(1030):
        token = signed({**CLAIMS, "jti": str(number)}, SECRET, "HS256")
        assert tokens.authenticate(Evidence(token.encode())) is not None
    assert len(tokens._valid) == 1024


@pytest.mark.parametrize("content", [b"short", PEM])
def test_a_secret_that_is_short_or_a_pem_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError):
        JwtKey.secret(content)


@pytest.mark.parametrize(("content", "algorithm"), [(b"x" * 40, "RS256"), (DER, "ES256")])
def test_a_public_key_that_does_not_fit_is_refused(content: bytes, algorithm: str) -> None:
    with pytest.raises(SettingsError):
        JwtKey.public(content, algorithm)


@pytest.mark.parametrize("head", ["data:;base64,", ""])
def test_an_inline_key_is_read_and_never_shown(head: str) -> None:
    text = base64.b64encode(SECRET).decode()
    source = KeySource.parse(head + text)
    assert source.decode() == SECRET
    assert text not in f"{source} {source!r}"


async def test_http_accepts_a_token_and_refuses_each_forged_one() -> None:
    policy = AuthorizationPolicy(ClusterRoles(super_users=frozenset({"admin"})))
    rules = ApiRules(CLUSTER, authenticator=Authenticator([provider()]), policy=policy)
    async with serving_brokers([free_port()], rules) as [broker]:
        for token, status in ((signed(CLAIMS), 200), *((bad, 401) for bad in FORGED.values())):
            async with HttpClient(
                token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20
            ) as http:
                answer = await http.request("GET", f"{broker.url}/control/v1/status")
            assert answer.status == status


async def partitions(served: Served, token: str) -> Any:
    def run() -> Any:
        client = pulsar.Client(
            f"pulsar://127.0.0.1:{served.port}",
            authentication=pulsar.AuthenticationToken(token),
            operation_timeout_seconds=20 if token == GOOD else 1,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
        )
        try:
            return client.get_topic_partitions(TOPIC)
        finally:
            client.close()

    return await asyncio.to_thread(run)


async def test_a_stock_client_signs_in_with_a_token() -> None:
    async with serving(authenticator=Authenticator([provider()])) as served:
        served.partitions.counts[TOPIC] = 1
        found = await partitions(served, GOOD)
        assert len(found) == 1


@pytest.mark.parametrize("kind", ["expired", "the public key as a secret"])
async def test_a_stock_client_with_a_forged_token_is_refused(kind: str) -> None:
    async with serving(authenticator=Authenticator([provider()])) as served:
        served.partitions.counts[TOPIC] = 1
        with pytest.raises(pulsar.PulsarException):
            await partitions(served, FORGED[kind])
        assert served.counted()["CONNECT", "AuthenticationError"] >= 1
        assert ("CONNECT", "ok") not in served.counted()
