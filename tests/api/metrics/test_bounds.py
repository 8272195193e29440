"""Every bound is shown: how much of it is taken, what its limit is, and what it refused."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from math import inf
from typing import Any, Final

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http import bodies
from broker_ctl.api.http.access.peer_requests import PeerRequests
from broker_ctl.api.http.dependencies import ApiRules, BinaryLimits
from broker_ctl.api.http.limits import rates
from broker_ctl.attach.server import AttachedApiServer, AttachedDependencies
from broker_ctl.clock import SystemClock
from broker_ctl.console.web import forms, live
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.instruments.kinds import Instrument
from broker_ctl.security.client_limits import RateLimits
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import NonceMemory, SignatureRefused
from broker_ctl.settings.publishing import HttpPort, PortRole
from tests.api.binary.serving import serving
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.binary_client import CONNECT, BinaryClient
from tests.support.http.certificates import serving_context
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S, eventually

# So low that a slow test gets no further token.
RATES: Final = RateLimits(0.001, 0.001, 0.001)
LOOKUP: Final = "/lookup/v2/topic/persistent/t/ns/x"
FORM: Final = b"Content-Type: application/x-www-form-urlencoded\r\n"
COMMON: Final = {
    "http-connections",
    "http-handshakes",
    "http-requests-clients",
    "http-requests-brokers",
    "http-requests-probes",
    "http-requests-console",
    "http-body-bytes",
    "http-rate-total",
    "http-rate-address",
    "http-rate-role",
    "delayed-failures",
    "console-forms",
    "console-streams",
}
OF_BROKERS: Final = COMMON | {
    "http-admin-connections",
    "http-metrics-connections",
    "lookups",
    "topic-lists",
    "topic-statistics",
    "binary-connections",
    "binary-waiting",
    "binary-handshakes",
    "binary-rate-address",
    "binary-rate-role",
    "binary-rate-total",
}


def values_of(instrument: Instrument) -> dict[str, float]:
    samples = [*instrument.samples()]
    values = {sample.labels["bound"]: sample.value for sample in samples}
    assert len(values) == len(samples), "two bounds have one name"
    return values


def shown(bounds: BoundInstruments, bound: str) -> tuple[float, float, float]:
    """Used, limit and refused."""
    used, limit, refused = map(values_of, (bounds.used, bounds.limit, bounds.refused))
    return used[bound], limit[bound], refused[bound]


class Seen:
    """A broker and its bounds, and connections to it that end with the test."""

    def __init__(self, broker: Broker, stack: AsyncExitStack) -> None:
        assert broker.api is not None
        self.broker, self.api = broker, broker.api
        self._bounds = broker.instruments.bounds
        self._stack = stack

    def shown(self, bound: str) -> tuple[float, float, float]:
        return shown(self._bounds, bound)

    async def send(self, data: bytes = b"") -> asyncio.StreamReader:
        host, port = self.broker.broker_id.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        # It closes its connection where nobody refers to it.
        self._stack.callback(_abort, writer)
        writer.write(data)
        return reader

    async def status_of(self, data: bytes) -> int:
        async with asyncio.timeout(PATIENCE_S):
            return int((await (await self.send(data)).read()).split()[1])


def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@asynccontextmanager
async def one_broker(**rules: Any) -> AsyncIterator[Seen]:
    made = ApiRules(CLUSTER, **rules)
    async with serving_brokers([free_port()], made) as [broker], AsyncExitStack() as stack:
        yield Seen(broker, stack)


def request(path: str, method: str = "GET", more: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return head.encode() + more + b"\r\n"


async def test_a_broker_shows_every_bound(leader: Broker) -> None:
    bounds = BoundInstruments()
    instruments = leader.dependencies.instruments
    # The one of the fixture has shown its own.
    instruments.bounds = bounds
    rules = ApiRules(
        CLUSTER,
        port=0,
        lookup_port=0,
        tls=serving_context(),
        rates=RATES,
        binary=BinaryLimits(rates=RATES),
        further_ports=tuple(
            HttpPort(role, "127.0.0.1", 0, None) for role in (PortRole.ADMIN, PortRole.METRICS)
        ),
    )
    server = ApiServer(leader.dependencies, rules)
    await server.start()
    try:
        for one in (bounds.used, bounds.limit, bounds.refused):
            assert values_of(one).keys() == OF_BROKERS
        assert 0 not in values_of(bounds.limit).values()
    finally:
        await server.stop(0.0)


async def test_a_process_beside_a_pulsar_cluster_shows_its_bounds(leader: Broker) -> None:
    bounds = leader.dependencies.instruments.bounds = BoundInstruments()
    names = AttachedDependencies.__dataclass_fields__.keys() - {"nodes", "cluster_balancer"}
    own = {name: getattr(leader.dependencies, name) for name in names}
    dependencies = AttachedDependencies(**own, nodes=None, cluster_balancer=None)  # type: ignore[arg-type]
    server = AttachedApiServer(dependencies, ApiRules(CLUSTER, port=0, rates=RATES))
    await server.start()
    try:
        assert values_of(bounds.used).keys() == COMMON
    finally:
        await server.stop(0.0)


async def test_connections() -> None:
    async with one_broker(max_connections=1, **admitting(f"admin:{TOKEN}", {"admin"})) as seen:
        await seen.send()
        await eventually(lambda: seen.shown("http-connections") == (1, 1, 0))
        # A stranger makes room for the next one, and counts, too.
        await seen.send()
        await eventually(lambda: seen.shown("http-connections") == (1, 1, 1))


async def test_requests_and_lookups() -> None:
    async with one_broker(max_requests=1, max_lookups=1) as seen:
        opened = asyncio.Event()
        seen.broker.lookup.gate = opened.wait
        first = await seen.send(request(LOOKUP))
        await eventually(lambda: seen.shown("http-requests-clients") == (1, 1, 0))
        assert seen.shown("lookups") == (1, 1, 0)
        assert await seen.status_of(request(LOOKUP)) == 503
        assert seen.shown("http-requests-clients") == (1, 1, 1)
        opened.set()
        await first.read()
    async with one_broker(max_lookups=1) as seen:
        opened = asyncio.Event()
        seen.broker.lookup.gate = opened.wait
        first = await seen.send(request(LOOKUP))
        await eventually(lambda: seen.shown("lookups") == (1, 1, 0))
        assert await seen.status_of(request(LOOKUP)) == 503
        assert seen.shown("lookups") == (1, 1, 1)
        opened.set()
        await first.read()
        # It is dynamic.
        seen.api.limit_lookups(7)
        assert seen.shown("lookups")[1] == 7


async def test_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_broker(max_body_bytes=100) as seen:
        path = "/admin/v2/clusters/other"
        large = request(path, "PUT", b"Content-Type: application/json\r\nContent-Length: 101\r\n")
        assert await seen.status_of(large) == 413
        assert seen.shown("http-body-bytes") == (0, 100, 1)
        half = request(path, "PUT", b"Content-Type: application/json\r\nContent-Length: 100\r\n")
        monkeypatch.setattr(bodies, "_LIMIT_S", 0.5)
        reader = await seen.send(half + b"{" * 60)
        await eventually(lambda: seen.shown("http-body-bytes") == (60, 100, 1))
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        assert seen.shown("http-body-bytes") == (0, 100, 2)


async def test_forms_of_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_MOST_FORMS", 1)
    async with one_broker() as seen:
        origin = f"Origin: http://localhost\r\nHost: {seen.broker.broker_id}\r\n".encode()
        half = request("/ui/sign-in", "POST", FORM + b"Content-Length: 9\r\n" + origin)
        half = half.replace(b"Host: localhost\r\n", b"").replace(
            b"http://localhost", f"http://{seen.broker.broker_id}".encode()
        )
        await seen.send(half)
        await eventually(lambda: seen.shown("console-forms") == (1, 1, 0))
        assert await seen.status_of(half) == 503
        assert seen.shown("console-forms") == (1, 1, 1)


async def test_streams_of_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST_STREAMS", 1)
    async with one_broker() as seen:
        await seen.send(request("/ui/live"))
        await eventually(lambda: seen.shown("console-streams") == (1, 1, 0))
        assert await seen.status_of(request("/ui/live")) == 503
        assert seen.shown("console-streams") == (1, 1, 1)


async def test_answers_to_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MAX_DELAYED", 1)
    monkeypatch.setattr("broker_ctl.security.client_limits._FREE_FAILURES", 0)
    monkeypatch.setattr("broker_ctl.security.client_limits._FIRST_DELAY_S", PATIENCE_S)
    rules = admitting(f"admin:{TOKEN}", {"admin"})
    async with one_broker(max_failure_delay_s=PATIENCE_S, **rules) as seen:
        await seen.send(request("/admin/v2/clusters/x", "DELETE"))
        await eventually(lambda: seen.shown("delayed-failures") == (1, 1, 0))
        assert await seen.status_of(request("/admin/v2/clusters/x", "DELETE")) == 429
        assert seen.shown("delayed-failures") == (1, 1, 1)


async def test_rates() -> None:
    async with one_broker(rates=RateLimits(address_per_s=0.001)) as seen:
        assert seen.shown("http-rate-address") == (0, 1, 0)
        assert await seen.status_of(request("/admin/v2/clusters")) == 200
        used, limit, refused = seen.shown("http-rate-address")
        assert used == pytest.approx(1, abs=0.1)
        assert (limit, refused) == (1, 0)
        assert await seen.status_of(request("/admin/v2/clusters")) == 429
        assert seen.shown("http-rate-address")[2] == 1
        # Where there is no limit, there is no bound.
        assert "http-rate-role" not in values_of(seen.broker.instruments.bounds.used)


async def test_clients_of_the_binary_protocol() -> None:
    async with serving(max_connections=1) as served:
        bounds = served.dependencies.bounds
        async with BinaryClient.connected(served.port):
            assert shown(bounds, "binary-connections") == (1, 1, 0)
            async with BinaryClient.to(served.port) as second:
                await second.ask(CONNECT)
            assert shown(bounds, "binary-connections") == (1, 1, 1)
    async with serving(max_waiting=2, max_waiting_of_address=1) as served:
        bounds = served.dependencies.bounds
        async with BinaryClient.to(served.port), BinaryClient.to(served.port):
            await eventually(lambda: shown(bounds, "binary-waiting") == (1, 2, 1))
            assert shown(bounds, "binary-connections")[::2] == (0, 0)
    async with serving(max_connections=0) as served:
        limit = shown(served.dependencies.bounds, "binary-connections")[1]
        assert 0 < limit <= inf


async def test_handshakes_of_both_protocols() -> None:
    async with serving() as served:
        bounds, handshakes = served.dependencies.bounds, served.server.handshakes
        handshakes.limit = 1
        with ExitStack() as silent:
            for _ in range(2):
                silent.enter_context(socket.create_connection(("127.0.0.1", served.tls_port)))
            await eventually(lambda: shown(bounds, "binary-handshakes") == (1, 1, 1))
    async with one_broker(port_tls=0, tls=serving_context()) as seen:
        seen.api._http.handshakes.limit = 1
        with ExitStack() as silent:
            for _ in range(2):
                silent.enter_context(socket.create_connection(("127.0.0.1", seen.api.port_tls)))
            await eventually(lambda: seen.shown("http-handshakes") == (1, 1, 1))


def test_signed_requests() -> None:
    bounds = BoundInstruments()
    PeerRequests(
        ClusterKeys.of([bytes(32)]),
        "b:1",
        SystemClock(),
        role="broker",
        is_required=False,
        on_refusal=lambda _: None,
        bounds=bounds,
    )
    assert values_of(bounds.used).keys() == {"signed-requests"}
    few, memory = BoundInstruments(), NonceMemory(most=1)
    memory.show(few)
    memory.admit("a", 0)
    with pytest.raises(SignatureRefused):
        memory.admit("b", 0)
    assert shown(few, "signed-requests") == (1, 1, 1)
