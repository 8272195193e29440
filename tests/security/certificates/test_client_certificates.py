"""Client certificates as identity: over HTTP, over the binary protocol, and with a stock client."""

import asyncio
import datetime as dt
import importlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.tls import KeyPair, PemFile, client_context
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Authenticator, Evidence, Principal, Proof
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.certificates.certificate_roles import CertificateRoles, MappingRules
from broker_ctl.security.certificates.peer_certificate import BrokerIdentity, PeerCertificate
from broker_ctl.security.static_tokens import StaticTokens
from tests.api.binary.serving import Served, serving
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.binary_client import PING, BinaryClient, command
from tests.support.http.web_server import free_port
from tests.support.security.authority import Authority, Issued, issue
from tests.support.time.waiting import PATIENCE_S

pulsar: Any = importlib.import_module("pulsar")

TOPIC = "persistent://t/ns/x"
TOKEN = "a-secret-of-the-reader"


class Clock:
    """A wall clock that a test sets forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_s(self) -> float:
        return SystemClock().wall_ms() / 1000 + self.ahead_s

    def wall_ms(self) -> int:
        return int(self.now_s() * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(tmp_path: Path) -> Issued:
    return issue(tmp_path / "server")


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "clients")


@pytest.fixture
def context(server: Issued, clients: Authority) -> ssl.SSLContext:
    """Of a server that asks for certificates, and takes none for an answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.load_verify_locations(clients.path)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def showing(server: Issued, files: Issued | None) -> ssl.SSLContext:
    """Of a client that shows a certificate, or none."""
    own = None
    if files is not None:
        own = KeyPair(PemFile("cert", files.certificate), PemFile("key", files.key))
    context = client_context(PemFile("ca", server.authority), own)
    assert context is not None
    return context


def authenticator(clock: Clock, rules: str | None = None) -> Authenticator:
    mapping = None if rules is None else MappingRules.parse(rules)
    tokens = StaticTokens.parse(f"reader:{TOKEN}\n")
    return Authenticator([tokens, CertificateRoles(mapping, clock.now_s)])


@asynccontextmanager
async def status_over_http(
    context: ssl.SSLContext, server: Issued, clock: Clock, rules: str | None = None
) -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Asks a daemon for what only admin may read, by a certificate, a token or both."""
    policy = AuthorizationPolicy(ClusterRoles(super_users=frozenset({"admin"})))
    port = free_port()
    api = ApiRules(
        CLUSTER,
        authenticator=authenticator(clock, rules),
        policy=policy,
        port_tls=port,
        tls=context,
    )

    async with serving_brokers([free_port()], api):

        async def ask(files: Issued | None, token: str | None = None) -> int:
            tls = showing(server, files)
            async with HttpClient(
                token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=tls
            ) as http:
                url = f"https://127.0.0.1:{port}/control/v1/status"
                return (await http.request("GET", url)).status

        yield ask


async def test_http_takes_the_role_from_the_certificate_until_it_expires(
    context: ssl.SSLContext, server: Issued, clients: Authority, clock: Clock, tmp_path: Path
) -> None:
    admin, guest = clients.issue("admin"), clients.issue("guest")
    stranger = Authority(tmp_path / "strangers").issue("admin")
    async with status_over_http(context, server, clock) as ask:
        assert await ask(admin) == 200
        assert await ask(guest) == 403
        assert await ask(None) == 401
        # A client with a token has the role of the token alone.
        assert await ask(admin, TOKEN) == 403
        assert await ask(admin, "wrong") == 401
        with pytest.raises(HttpError):
            await ask(stranger)
        clock.ahead_s = 2 * 86_400.0
        assert await ask(admin) == 401


async def test_a_server_that_verifies_no_certificates_takes_no_role_from_one(
    context: ssl.SSLContext, server: Issued, clients: Authority, clock: Clock
) -> None:
    context.verify_mode = ssl.CERT_NONE
    async with status_over_http(context, server, clock) as ask:
        assert await ask(clients.issue("admin")) == 401


def tls_connect() -> bytes:
    return command(CommandType.CONNECT, client_version="c", auth_method_name="tls")


@asynccontextmanager
async def binary(context: ssl.SSLContext, clock: Clock) -> AsyncIterator[Served]:
    async with serving(
        authenticator=authenticator(clock), tls=context, wall_ms=clock.wall_ms
    ) as served:
        yield served


async def test_a_binary_client_has_the_role_of_its_certificate_until_it_expires(
    context: ssl.SSLContext, server: Issued, clients: Authority, clock: Clock
) -> None:
    tls = showing(server, clients.issue("app"))
    async with binary(context, clock) as served, BinaryClient.to(served.tls_port, tls) as client:
        assert (await client.ask(tls_connect())).type == CommandType.CONNECTED
        assert await client.is_answered()
        clock.ahead_s = 2 * 86_400.0
        last = await client.ask(PING)
        assert last.error.error == ServerError.AuthenticationError
        assert "the certificate of the client has expired" in last.error.message
        assert await client.rest() == b""


async def test_a_binary_client_without_a_proven_certificate_is_refused(
    context: ssl.SSLContext, server: Issued, clients: Authority, clock: Clock
) -> None:
    bare, nameless = showing(server, None), showing(server, clients.issue("x", subject="O=x"))
    async with binary(context, clock) as served:
        for port, tls, said in (
            (served.tls_port, bare, "a client certificate of a trusted authority is wanted"),
            (served.port, None, "a client certificate of a trusted authority is wanted"),
            (served.tls_port, nameless, "proves no role"),
        ):
            async with BinaryClient.to(port, tls) as client:
                answer = await client.ask(tls_connect())
                assert answer.error.error == ServerError.AuthenticationError
                assert said in answer.error.message


async def partitions(served: Served, server: Issued, files: Issued) -> Any:
    def run() -> Any:
        client = pulsar.Client(
            f"pulsar+ssl://127.0.0.1:{served.tls_port}",
            authentication=pulsar.AuthenticationTLS(str(files.certificate), str(files.key)),
            tls_trust_certs_file_path=str(server.authority),
            operation_timeout_seconds=20 if files.certificate.stem == "app" else 1,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"),
        )
        try:
            return client.get_topic_partitions(TOPIC)
        finally:
            client.close()

    return await asyncio.to_thread(run)


async def test_a_stock_client_signs_in_with_a_certificate(
    context: ssl.SSLContext, server: Issued, clients: Authority, clock: Clock, tmp_path: Path
) -> None:
    async with binary(context, clock) as served:
        served.partitions.counts[TOPIC] = 1
        assert len(await partitions(served, server, clients.issue("app"))) == 1
        ok = served.counted()["CONNECT", "ok"]
        for bad in (
            Authority(tmp_path / "strangers").issue("admin"),
            clients.issue("late", ends=-dt.timedelta(hours=1)),
            clients.issue("nameless", subject="O=x"),
        ):
            with pytest.raises(pulsar.PulsarException):
                await partitions(served, server, bad)
        assert served.counted()["CONNECT", "ok"] == ok


SPIFFE = "spiffe://prod/client/orders"


def role(files: Issued, rules: str | None = None) -> str | None:
    der = ssl.PEM_cert_to_DER_cert(files.certificate.read_text(encoding="ascii"))
    mapping = None if rules is None else MappingRules.parse(rules)
    found = CertificateRoles(mapping, lambda: 0.0).authenticate(
        Evidence(certificate=PeerCertificate.parse(der))
    )
    assert found is None or found.proof is Proof.CERTIFICATE
    return None if found is None else found.role


@pytest.mark.parametrize(
    ("subject", "uris", "rules", "expected"),
    [
        ("CN=app,OU=x,O=y", (), None, "app"),
        # Two names: which of them would count is up to the reader.
        ("CN=app,CN=admin", (), None, None),
        # In an attribute of another kind: Pulsar splits the text at commas.
        (r"OU=x\,CN=admin,CN=app", (), None, "app"),
        ("O=y", (), None, None),
        ("O=y", (SPIFFE,), None, SPIFFE),
        ("CN=app", (SPIFFE,), None, "app"),
        # Which of them would count is up to the reader.
        ("CN=app", (SPIFFE, "spiffe://prod/client/admin"), None, None),
        ("O=y", (SPIFFE, "spiffe://prod/client/admin"), "DEFAULT", None),
        ("CN=app,O=y", (), "DEFAULT", "CN=app,O=y"),
        ("CN=Ada,OU=Ops", (), "RULE:CN=(.*?),OU=Ops.*/op-$1/L,DEFAULT", "op-ada"),
        ("CN=Ada,OU=Ops", (), "RULE:CN=(.*?),OU=Dev/$1/", None),
        ("CN=Ada,OU=Ops", (), "RULE:CN=(.*?),OU=Dev/$1/,RULE:CN=(.*?),.*/$1/U", "ADA"),
        # Not at the end of a longer name.
        ("CN=x,OU=Ops,CN=admin", (), "RULE:CN=admin/admin/", None),
        # The value of CN is "admin,OU=Ops", of an authority that lets clients choose it.
        (r"CN=admin\,OU=Ops,OU=guests", (), r"RULE:CN=(\w+).*,OU=Ops,.*/$1/", None),
        ("CN=app", (SPIFFE,), "RULE:spiffe:\\/\\/prod\\/client\\/([a-z]+)/$1/", "orders"),
        # The SPIFFE ID alone is judged.
        ("CN=app", (SPIFFE,), "RULE:CN=(.*)/$1/", None),
        (",".join(f"{kind}={'x' * 64}" for kind in ("CN", "OU", "O", "L")), (), "DEFAULT", None),
    ],
)  # fmt: skip
def test_the_role_of_a_certificate(
    clients: Authority, subject: str, uris: tuple[str, ...], rules: str | None, expected: str | None
) -> None:
    assert role(clients.issue("one", *uris, subject=subject), rules) == expected


def test_a_certificate_is_matched_against_patterns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def role_of(_: MappingRules, name: str) -> str:
        asked.append(name)
        return "app"

    monkeypatch.setattr(MappingRules, "role_of", role_of)
    roles = CertificateRoles(MappingRules.parse("DEFAULT"), lambda: 0.0)
    for name in ("CN=a", "CN=b", "CN=a", "CN=a"):
        evidence = Evidence(certificate=PeerCertificate(name, name, (), 100.0))
        assert roles.authenticate(evidence) is not None
    assert asked == ["CN=a", "CN=b"]


def test_the_certificate_of_a_broker_gives_no_role_of_a_client(clients: Authority) -> None:
    files = clients.issue("admin", "spiffe://prod/broker/h/8080")
    pem = files.certificate.read_text(encoding="ascii")
    evidence = Evidence(certificate=PeerCertificate.parse(ssl.PEM_cert_to_DER_cert(pem)))
    for cluster, expected in (("prod", None), ("test", "admin")):
        found = CertificateRoles(None, lambda: 0.0, BrokerIdentity(cluster)).authenticate(evidence)
        assert (None if found is None else found.role) == expected


@pytest.mark.parametrize(
    "uris",
    [
        (SPIFFE, "https://example.com"),
        ("spiffe://prod/client/../admin",),
        ("spiffe://prod/client//admin",),
        ("spiffe://prod:80/client",),
        ("spiffe://me@prod/client",),
        ("SPIFFE://prod/client",),
        ("spiffe://prod/client?x",),
        ("spiffe://prod/%61dmin",),
    ],
)
def test_a_certificate_with_another_uri_or_a_malformed_spiffe_id_proves_nothing(
    clients: Authority, uris: tuple[str, ...]
) -> None:
    der = ssl.PEM_cert_to_DER_cert(
        clients.issue("one", *uris).certificate.read_text(encoding="ascii")
    )
    with pytest.raises(ValueError, match="SPIFFE"):
        PeerCertificate.parse(der)


def test_an_expired_certificate_proves_nothing() -> None:
    certificate = PeerCertificate("CN=app", "app", (), 100.0)
    now_s = [99.0]
    roles = CertificateRoles(None, lambda: now_s[0])
    evidence = Evidence(certificate=certificate)
    assert roles.authenticate(evidence) == Principal("app", Proof.CERTIFICATE, 100.0)
    now_s[0] = 100.0
    assert roles.authenticate(evidence) is None
