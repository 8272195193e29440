"""Who has the certificate of a broker gives the commands of brokers, and nothing else."""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker_ctl.api.http.access.peer_requests import BrokerCertificates, PeerRequests
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.tls import KeyPair, PemFile, client_context
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.audit.log import AuditRules
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.certificates.certificate_roles import CertificateRoles
from broker_ctl.security.certificates.peer_certificate import BrokerIdentity
from broker_ctl.security.client_limits import RateLimits
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import MAX_AHEAD_MS, RequestSigner
from broker_ctl.security.static_tokens import StaticTokens
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.authority import Authority, Issued
from tests.support.time.waiting import PATIENCE_S

KEYS = ClusterKeys.of([bytes(range(32))])
TOKEN = "a-secret-of-the-operator"
ACQUIRE = ("POST", "/control/v1/acquire")
STATUS = ("GET", "/control/v1/status")
PAUSE = ("PUT", "/control/v1/pause")
# The command is malformed, which only an accepted sender hears.
TAKEN = 400


class Clock(SystemClock):
    """A wall clock that a test sets forward."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


@dataclass
class Daemon:
    """One daemon over TLS, and its refusals of signatures."""

    authority: Authority
    clock: Clock
    port: int
    broker_id: str
    refused: list[str]

    async def ask(
        self,
        request: tuple[str, str],
        files: Issued | None,
        *,
        token: str | None = None,
        signed_by: str = "",
    ) -> tuple[int, str]:
        own = None
        if files is not None:
            own = KeyPair(PemFile("cert", files.certificate), PemFile("key", files.key))
        tls = client_context(PemFile("ca", self.authority.path), own)
        signer = RequestSigner(KEYS, signed_by)

        def sign(method: str, path: str, body: bytes) -> Mapping[str, str]:
            return signer.sign(self.broker_id, method, path, body, self.clock.wall_ms())

        method, path = request
        content = b'{"epoch":1}' if method != "GET" else None
        async with HttpClient(
            token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=tls
        ) as http:
            reply = await http.request(
                method,
                f"https://127.0.0.1:{self.port}{path}",
                content=content,
                sign=sign if signed_by else None,
            )
        return reply.status, reply.body.decode()


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with serving(tmp_path) as found:
        yield found


@asynccontextmanager
async def serving(
    tmp_path: Path, limits: RateLimits | None = None, *, has_key: bool = True
) -> AsyncIterator[Daemon]:
    authority, clock, refused = Authority(tmp_path / "ca", CLUSTER), Clock(), list[str]()
    port, plain = free_port(), free_port()
    own = authority.broker("own", f"127.0.0.1:{plain}")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own.certificate, own.key)
    tls.load_verify_locations(authority.path)
    tls.verify_mode = ssl.CERT_OPTIONAL
    peers = PeerRequests(
        KEYS,
        f"127.0.0.1:{plain}",
        clock,
        role="broker",
        is_required=False,
        on_refusal=refused.append,
        bounds=BoundInstruments(),
    )
    rules = ApiRules(
        CLUSTER,
        authenticator=Authenticator(
            [
                StaticTokens.parse(f"admin:{TOKEN}\n"),
                CertificateRoles(None, lambda: clock.wall_ms() / 1000),
            ]
        ),
        policy=AuthorizationPolicy(ClusterRoles(super_users=frozenset({"admin"}))),
        port_tls=port,
        tls=tls,
        peers=peers if has_key else None,
        rates=limits or RateLimits(),
        broker_certificates=BrokerCertificates(BrokerIdentity(CLUSTER), "broker", clock),
    )
    # By now no request has to be signed for the start of this daemon.
    clock.ahead_ms = MAX_AHEAD_MS + 1_000
    audited = AuditRules(tmp_path / "audit.log")
    async with serving_brokers([plain], rules, audit=audited):
        yield Daemon(authority, clock, port, f"127.0.0.1:{plain}", refused)


async def test_the_certificate_of_a_broker_gives_the_commands_of_brokers_and_nothing_else(
    daemon: Daemon,
) -> None:
    broker = daemon.authority.broker("b-2", "127.0.0.1:9")
    assert (await daemon.ask(ACQUIRE, broker))[0] == TAKEN
    for request in (STATUS, PAUSE):
        status, text = await daemon.ask(request, broker)
        assert (status, "role broker may only" in text) == (403, True)
    assert (await daemon.ask(("GET", "/livez"), broker))[0] == 200
    # A token is judged alone, as for every client.
    assert (await daemon.ask(STATUS, broker, token=TOKEN))[0] == 200
    assert (await daemon.ask(ACQUIRE, broker, token="wrong"))[0] == 401
    daemon.clock.ahead_ms = 3 * 86_400_000
    assert (await daemon.ask(ACQUIRE, broker))[0] == 401


async def test_no_other_certificate_makes_a_broker(daemon: Daemon) -> None:
    authority = daemon.authority
    for files, status in (
        (authority.broker("other-cluster", "127.0.0.1:9", cluster="test"), 403),
        (authority.issue("guest"), 403),
        (None, 401),
    ):
        assert (await daemon.ask(ACQUIRE, files))[0] == status
    assert (await daemon.ask(STATUS, authority.issue("admin")))[0] == 200


async def test_a_signed_request_comes_with_the_certificate_of_its_broker_or_with_none(
    daemon: Daemon,
) -> None:
    broker = daemon.authority.broker("b-2", "127.0.0.1:9")
    assert (await daemon.ask(ACQUIRE, broker, signed_by="127.0.0.1:9"))[0] == TAKEN
    assert (await daemon.ask(ACQUIRE, None, signed_by="127.0.0.1:8"))[0] == TAKEN
    for files, source in (
        (broker, "127.0.0.1:8"),
        (daemon.authority.issue("admin"), "127.0.0.1:9"),
    ):
        status, text = await daemon.ask(ACQUIRE, files, signed_by=source)
        assert (status, "the certificate is another's" in text) == (401, True)
    assert daemon.refused == ["other-certificate"] * 2


async def test_the_audit_log_has_the_id_of_the_broker_and_its_proof(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        broker = daemon.authority.broker("b-2", "[2001:db8::1]:9")
        assert (await daemon.ask(ACQUIRE, broker))[0] == TAKEN
        assert (await daemon.ask(PAUSE, broker))[0] == 403
    lines = (tmp_path / "audit.log").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    sent = [(each["principal"], each["proof"]) for each in events if each.get("route")]
    assert sent == [("[2001:db8::1]:9", "certificate")] * 2


@pytest.mark.parametrize("has_key", [True, False])
async def test_commands_of_brokers_are_not_limited_and_those_of_clients_are(
    tmp_path: Path, *, has_key: bool
) -> None:
    async with serving(tmp_path, RateLimits(address_per_s=1), has_key=has_key) as daemon:
        broker = daemon.authority.broker("b-2", "127.0.0.1:9")
        assert {(await daemon.ask(ACQUIRE, broker))[0] for _ in range(8)} == {TAKEN}
        client = daemon.authority.issue("guest")
        statuses = [(await daemon.ask(ACQUIRE, client))[0] for _ in range(8)]
        assert 429 in statuses
