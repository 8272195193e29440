"""Tokens of an OpenID Connect issuer: a real HTTPS server in a process of its own."""

import asyncio
import json
import random
import subprocess
import sys
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.security import authenticating, build_authentication
from broker_ctl.daemon.wiring.tls import PemFile, client_context
from broker_ctl.daemon.wiring.tokens import build_openid_tokens
from broker_ctl.errors import SettingsError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.jwt import MAX_BYTES
from broker_ctl.security.openid import OpenIdRules, OpenIdTokens
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.cleartext import CLEARTEXT
from broker_ctl.settings.conditions import OPENID_PROVIDER
from broker_ctl.settings.root import Settings
from tests.support.daemon.in_memory_daemon import settings_of
from tests.support.security import issuer as issuer_process
from tests.support.security.authority import Issued, issue
from tests.support.time.waiting import PATIENCE_S, eventually

ONE: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
TWO: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
DISCOVERY: Final = "/.well-known/openid-configuration"
NOW_S: Final = SystemClock().wall_ms() // 1000


@dataclass
class OpenIdIssuer:
    """An issuer, with the directory of its answers."""

    directory: Path
    url: str

    def asked(self) -> list[str]:
        """The paths that it was asked for."""
        return (self.directory / "asked").read_text().splitlines()

    def answer(self, path: str, body: bytes, head: str = "200") -> None:
        name = urllib.parse.quote(path, safe="")
        fresh = self.directory / f"{name}.new"
        fresh.write_bytes(head.encode() + b"\n" + body)
        fresh.replace(self.directory / name)

    def describe(self, **changes: Any) -> None:
        found = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **changes}
        self.answer(DISCOVERY, json.dumps(found).encode())

    def publish(self, **keys: rsa.RSAPrivateKey) -> None:
        rows = [
            {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid}
            for kid, key in keys.items()
        ]
        self.answer("/keys", json.dumps({"keys": rows}).encode())

    def token(self, key: rsa.RSAPrivateKey = ONE, kid: str = "one", **changes: Any) -> Evidence:
        claims = {
            "iss": self.url,
            "aud": ["brokers"],
            "sub": "admin",
            "iat": NOW_S,
            "exp": NOW_S + 3600,
            **changes,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        return Evidence(jwt.encode(kept, key, "RS256", headers={"kid": kid}).encode())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return issue(tmp_path_factory.mktemp("issuer") / "tls")


@pytest.fixture
def issuer(certificate: Issued, tmp_path: Path) -> Iterator[OpenIdIssuer]:
    directory = tmp_path / "answers"
    directory.mkdir()
    words = (str(certificate.certificate), str(certificate.key), str(directory))
    (directory / "asked").touch()
    with subprocess.Popen(
        [sys.executable, issuer_process.__file__, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = OpenIdIssuer(
                directory, f"https://127.0.0.1:{process.stdout.readline().strip()}"
            )
            found.describe()
            found.publish(one=ONE)
            yield found
        finally:
            process.kill()


@asynccontextmanager
async def following(
    issuer: OpenIdIssuer, certificate: Issued | None, **changes: Any
) -> AsyncIterator[OpenIdTokens]:
    settings = {
        "issuers": (issuer.url,),
        "audiences": frozenset({"brokers"}),
        "role_claim": "sub",
        "leeway_s": 0.0,
        "refresh_s": 3600.0,
        "expiry_s": 7200.0,
        "miss_refresh_s": 3600.0,
        **changes,
    }
    trusted = None if certificate is None else PemFile("x", certificate.authority)
    http = HttpClient(
        timeout_s=PATIENCE_S, max_body_bytes=MAX_BYTES, ssl=client_context(trusted, None)
    )
    tokens = OpenIdTokens(OpenIdRules(**settings), http, SystemClock(), random.Random(1))
    tokens.start()
    try:
        yield tokens
    finally:
        await tokens.close()


async def role_of(tokens: OpenIdTokens, evidence: Evidence) -> str | None:
    found = tokens.authenticate(evidence)
    return None if found is None else found.role


async def wait_for(tokens: OpenIdTokens, evidence: Evidence) -> str:
    return await eventually(lambda: role_of(tokens, evidence), what="a role")


async def test_a_token_of_an_allowed_issuer_proves_its_role_and_no_other_does(
    issuer: OpenIdIssuer, certificate: Issued
) -> None:
    async with following(issuer, certificate) as tokens:
        good = issuer.token()
        assert await wait_for(tokens, good) == "admin"
        for bad in (
            issuer.token(TWO),
            issuer.token(kid="two"),
            issuer.token(iss="https://127.0.0.1:1"),
            issuer.token(iss=f"{issuer.url}/"),
            issuer.token(aud="others"),
            issuer.token(aud=None),
            issuer.token(exp=NOW_S - 1),
            issuer.token(exp=None),
            issuer.token(iat=None),
            issuer.token(sub=None),
            Evidence(b"a.b.c"),
            Evidence(),
        ):
            assert tokens.authenticate(bad) is None
        assert await role_of(tokens, good) == "admin"
        # None of them makes the daemon fetch again in this hour.
        assert issuer.asked() == [DISCOVERY, "/keys"]


async def test_new_keys_are_fetched_for_an_unknown_one_and_old_ones_end(
    issuer: OpenIdIssuer, certificate: Issued
) -> None:
    async with following(issuer, certificate, miss_refresh_s=0.2) as tokens:
        changes: list[None] = []
        tokens.listen(lambda: changes.append(None))
        old, new = issuer.token(), issuer.token(TWO, "two")
        assert await wait_for(tokens, old) == "admin"
        issuer.publish(two=TWO)
        assert await wait_for(tokens, new) == "admin"
        # What the removed key had verified is forgotten.
        assert tokens.authenticate(old) is None
        assert len(changes) == 2


async def test_fetches_for_unknown_keys_are_limited(
    issuer: OpenIdIssuer, certificate: Issued
) -> None:
    async with following(issuer, certificate, miss_refresh_s=1.0) as tokens:
        assert await wait_for(tokens, issuer.token()) == "admin"
        started_s = asyncio.get_running_loop().time()
        for number in range(1000):
            assert tokens.authenticate(issuer.token(kid=f"{number}")) is None
            await asyncio.sleep(0)
        passed_s = asyncio.get_running_loop().time() - started_s
        fetches = issuer.asked().count("/keys")
        assert fetches <= 2 + passed_s


async def test_keys_count_until_they_expire_while_the_issuer_is_away(
    issuer: OpenIdIssuer, certificate: Issued
) -> None:
    async with following(issuer, certificate, refresh_s=0.1, expiry_s=2.0) as tokens:
        assert await wait_for(tokens, issuer.token()) == "admin"
        issuer.answer("/keys", b"", "500")
        failed = len(issuer.asked())

        async def is_asked_again() -> bool:
            return len(issuer.asked()) > failed

        await eventually(is_asked_again, what="another fetch")

        async def is_refused() -> bool:
            return tokens.authenticate(issuer.token()) is None

        await eventually(is_refused, what="the end of the keys")


async def refused(issuer: OpenIdIssuer, tokens: OpenIdTokens, caplog: Any, says: str) -> None:
    async def is_logged() -> bool:
        return says in caplog.text

    await eventually(is_logged, what=says)
    assert tokens.authenticate(issuer.token()) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"issuer": "https://other.example"}, "that of another issuer"),
        ({"jwks_uri": "http://127.0.0.1:9/keys"}, "not an https URL"),
        ({"jwks_uri": "file:///etc/passwd"}, "not an https URL"),
        ({"jwks_uri": None}, "not an https URL"),
    ],
)
async def test_a_description_that_leads_elsewhere_is_refused(
    issuer: OpenIdIssuer, certificate: Issued, caplog: Any, changes: dict[str, Any], says: str
) -> None:
    issuer.describe(**changes)
    async with following(issuer, certificate) as tokens:
        await refused(issuer, tokens, caplog, says)


@pytest.mark.parametrize("path", [DISCOVERY, "/keys"])
async def test_no_redirect_is_followed(
    issuer: OpenIdIssuer, certificate: Issued, caplog: Any, path: str
) -> None:
    issuer.answer("/elsewhere", (issuer.directory / urllib.parse.quote(path, safe="")).read_bytes())
    issuer.answer(path, b"", f"redirect {issuer.url}/elsewhere")
    async with following(issuer, certificate) as tokens:
        await refused(issuer, tokens, caplog, "status 302")
    assert "/elsewhere" not in issuer.asked()


async def test_an_answer_is_bounded(issuer: OpenIdIssuer, certificate: Issued, caplog: Any) -> None:
    issuer.answer("/keys", b" " * (MAX_BYTES + 1))
    async with following(issuer, certificate) as tokens:
        await refused(issuer, tokens, caplog, f"longer than {MAX_BYTES} bytes")


async def test_an_issuer_without_a_trusted_certificate_is_not_believed(
    issuer: OpenIdIssuer, caplog: Any
) -> None:
    async with following(issuer, None) as tokens:
        await refused(issuer, tokens, caplog, "certificate")
    assert issuer.asked() == []


def daemon_settings(issuer: OpenIdIssuer, certificate: Issued) -> Settings:
    return settings_of(
        "authenticationEnabled=true",
        f"authenticationProviders={OPENID_PROVIDER}",
        "clusterKeyFile=unread",
        f"openIDAllowedTokenIssuers={issuer.url}",
        "openIDAllowedAudiences=others,brokers",
        f"openIDTokenIssuerTrustCertsFilePath={certificate.authority}",
        "openIDKeyIdCacheMissRefreshSeconds=1",
    )


@pytest.mark.parametrize(
    ("answer", "says"),
    [((b" " * (MAX_BYTES + 1),), f"longer than {MAX_BYTES} bytes"), ((b"", "redirect /x"), "302")],
)
async def test_a_daemon_bounds_answers_and_follows_no_redirect(
    issuer: OpenIdIssuer, certificate: Issued, caplog: Any, answer: tuple[Any, ...], says: str
) -> None:
    issuer.answer("/keys", *answer)
    settings = daemon_settings(issuer, certificate)
    tokens = build_openid_tokens(settings, SystemClock(), Reloader())
    assert tokens is not None
    tokens.start()
    try:
        await refused(issuer, tokens, caplog, says)
    finally:
        await tokens.close()
    assert "/x" not in issuer.asked()


async def test_a_daemon_fetches_the_keys_while_it_runs(
    issuer: OpenIdIssuer, certificate: Issued
) -> None:
    settings = daemon_settings(issuer, certificate)
    built = build_authentication(settings, SystemClock(), Reloader())
    assert built is not None
    authenticator, changes = built.authenticator, list[None]()
    authenticator.listen(lambda: changes.append(None))

    async def role() -> str | None:
        found = authenticator.authenticate(issuer.token())
        return None if found is None else found.role

    assert await role() is None
    async with authenticating(settings, built):
        assert await eventually(role, what="a role") == "admin"
        # Binary connections are judged again.
        assert len(changes) == 1


@pytest.mark.parametrize("missing", ["openIDAllowedTokenIssuers", "openIDAllowedAudiences"])
def test_tokens_of_any_issuer_or_for_any_audience_are_not_an_option(missing: str) -> None:
    given = {"openIDAllowedTokenIssuers": "https://i", "openIDAllowedAudiences": "a"}
    with pytest.raises(SettingsError, match="tokens need an issuer and an audience"):
        settings_of(
            "authenticationEnabled=true",
            f"authenticationProviders={OPENID_PROVIDER}",
            "clusterKeyFile=unread",
            *(f"{key}={value}" for key, value in given.items() if key != missing),
        )


def test_tokens_of_issuers_need_tls_beyond_loopback() -> None:
    further = (
        "authenticationEnabled=true",
        f"authenticationProviders={OPENID_PROVIDER}",
        "clusterKeyFile=unread",
        "openIDAllowedTokenIssuers=https://i",
        "openIDAllowedAudiences=a",
    )
    assert not CLEARTEXT.holds(settings_of(*further))
    assert CLEARTEXT.holds(settings_of(*further, "bindAddress=0.0.0.0"))


@pytest.mark.parametrize("url", ["http://i", "https://user@i", "https://i?x", "i"])
def test_an_issuer_is_asked_over_https_only(url: str) -> None:
    with pytest.raises(SettingsError, match="an https URL"):
        settings_of(f"openIDAllowedTokenIssuers={url}")
