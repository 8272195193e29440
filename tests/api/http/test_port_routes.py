"""Ports of their own for administration and metrics, and what the public one then refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.errors import HttpError, StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.settings.publishing import HttpPort, PortRole
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.certificates import serving_context, trusting_context
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

ADMIN = HttpPort(PortRole.ADMIN, port=0)
METRICS = HttpPort(PortRole.METRICS, port=0)
LOOKUP = "/lookup/v2/topic/persistent/t/ns/x"
TOKEN = "0123456789abcdef"


def url_of(broker: Broker, role: PortRole) -> str:
    assert isinstance(broker.api, ApiServer)
    return f"http://127.0.0.1:{broker.api.port_of(role)}"


@asynccontextmanager
async def serving(*ports: HttpPort) -> AsyncIterator[Broker]:
    async with serving_brokers([free_port()], ApiRules(CLUSTER, further_ports=ports)) as [broker]:
        yield broker


async def status_of(http: HttpClient, url: str, method: str = "GET") -> int:
    return (await http.request(method, url)).status


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/admin/v2/brokers/health"])
@pytest.mark.parametrize("role", list(PortRole))
async def test_each_port_serves_the_health(http: HttpClient, role: PortRole, path: str) -> None:
    async with serving(ADMIN, METRICS) as broker:
        assert await status_of(http, url_of(broker, role) + path) == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/control/v1/status"),
        ("POST", "/control/v1/acquire"),
        ("GET", "/admin/v2/tenants"),
        ("PUT", "/admin/v2/tenants/new/"),
        ("GET", "/control/v1/partitions/controller"),
        ("PUT", "/admin/v2/persistent/t/ns/x/partitions"),
        ("GET", "/dataplane/v1/authority"),
    ],
)
async def test_the_public_port_refuses_administration_and_names_the_port(
    http: HttpClient, method: str, path: str
) -> None:
    async with serving(HttpPort(PortRole.ADMIN, port=free_port())) as broker:
        admin = url_of(broker, PortRole.ADMIN)
        reply = await http.request(method, broker.url + path)
        port = admin.rpartition(":")[2]
        assert (reply.status, reply.json()["error"]) == (403, "OtherPort")
        assert (
            f"serves no administration: use port {port} (adminServicePort) of"
            in (reply.json()["reason"])
        )
        there = await http.request(method, admin + path)
        assert b"OtherPort" not in there.body
    assert broker.commands.obeyed == []


async def test_clients_look_up_at_both_ports_and_metrics_stay_at_both(http: HttpClient) -> None:
    async with serving(ADMIN) as broker:
        for url in (broker.url, url_of(broker, PortRole.ADMIN)):
            for path in (f"{LOOKUP}/bundle", "/admin/v2/namespaces/t/ns/topics", "/metrics"):
                assert await status_of(http, url + path) == 200, (url, path)


async def test_metrics_with_a_port_of_their_own_are_served_there_alone(http: HttpClient) -> None:
    async with serving(ADMIN, METRICS) as broker:
        metrics = url_of(broker, PortRole.METRICS)
        assert await status_of(http, f"{metrics}/metrics") == 200
        for url in (broker.url, url_of(broker, PortRole.ADMIN)):
            refused = await http.request("GET", f"{url}/metrics")
            assert (refused.status, refused.json()["error"]) == (403, "OtherPort")
            assert "(metricsServicePort)" in refused.json()["reason"]
        for path in (LOOKUP, "/control/v1/status"):
            reply = await http.request("GET", metrics + path)
            assert (reply.status, reply.json()["error"]) == (403, "OtherPort")


async def test_without_an_admin_port_the_public_one_serves_all(http: HttpClient) -> None:
    async with serving(METRICS) as broker:
        for path in ("/control/v1/status", "/admin/v2/tenants", LOOKUP):
            assert await status_of(http, broker.url + path) == 200


async def test_a_stranger_learns_no_port() -> None:
    rules = replace(ApiRules(CLUSTER), further_ports=(ADMIN,), **admitting(f"a:{TOKEN}", ["a"]))
    async with (
        serving_brokers([free_port()], rules) as [broker],
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as stranger,
        HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as known,
    ):
        for url in (broker.url, url_of(broker, PortRole.ADMIN)):
            assert await status_of(stranger, f"{url}/control/v1/status") == 401
        assert await status_of(known, f"{broker.url}/control/v1/status") == 403
        assert await status_of(known, url_of(broker, PortRole.ADMIN) + "/control/v1/status") == 200


async def test_redirects_of_administration_go_to_the_admin_port(http: HttpClient) -> None:
    rules = ApiRules(CLUSTER, further_ports=(ADMIN,))
    async with serving_brokers([free_port(), free_port()], rules) as (leader, follower):
        there = url_of(leader, PortRole.ADMIN)
        leader.world.brokers[leader.broker_id] = replace(leader.urls, admin_url=there)
        path = "/control/v1/cluster"
        sent_on = await http.request("GET", url_of(follower, PortRole.ADMIN) + path)
        assert (sent_on.status, sent_on.headers["Location"]) == (307, there + path)
        assert await status_of(http, sent_on.headers["Location"]) == 200
        # Clients stay at the ports for clients.
        for asked, at in (
            (follower.url, leader.url),
            (url_of(follower, PortRole.ADMIN), there),
        ):
            # The second one is not answered before there is a task for it.
            for path in (LOOKUP, f"{LOOKUP}/"):
                location = (await http.request("GET", asked + path)).headers["Location"]
                assert location.startswith(at + LOOKUP)


async def test_a_broker_without_an_admin_port_redirects_to_that_of_another(
    http: HttpClient,
) -> None:
    async with serving_brokers([free_port(), free_port()]) as (leader, follower):
        leader.world.brokers[leader.broker_id] = replace(leader.urls, admin_url="http://h:1")
        sent_on = await http.request("GET", f"{follower.url}/control/v1/cluster")
        assert sent_on.headers["Location"] == "http://h:1/control/v1/cluster"


async def test_a_full_port_leaves_the_others_their_connections(http: HttpClient) -> None:
    rules = ApiRules(CLUSTER, further_ports=(ADMIN,), max_connections=1)
    async with serving_brokers([free_port()], rules) as [broker]:
        host, port = broker.broker_id.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert await status_of(http, f"{broker.url}/livez") == 503
        admin = url_of(broker, PortRole.ADMIN)
        assert await status_of(http, f"{admin}/livez") == 200
        # The one connection of the client to this port is open: there is a limit here, too.
        assert b" 503 " in await _first_line(admin)
        writer.close()


async def _first_line(url: str) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    line = await reader.readline()
    writer.close()
    return line


async def test_an_admin_port_speaks_tls(http: HttpClient) -> None:
    port = HttpPort(PortRole.ADMIN, port_tls=free_port())
    rules = ApiRules(CLUSTER, further_ports=(port,), tls=serving_context())
    url = f"https://127.0.0.1:{port.port_tls}/control/v1/status"
    async with (
        serving_brokers([free_port()], rules) as [broker],
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=trusting_context()) as safe,
    ):
        assert await status_of(safe, url) == 200
        with pytest.raises(HttpError):
            await http.request("GET", url.replace("https", "http"))
        refused = await http.request("GET", f"{broker.url}/control/v1/status")
        assert "(adminServicePortTls)" in refused.json()["reason"]


async def test_a_taken_admin_port_is_named_and_the_public_one_let_go(leader: Broker) -> None:
    public, taken = free_port(), int(leader.broker_id.split(":")[1])
    ports = (HttpPort(PortRole.ADMIN, port=taken),)
    second = ApiServer(leader.dependencies, ApiRules(CLUSTER, port=public, further_ports=ports))
    with pytest.raises(StartError, match=rf"{taken}.*in use.*adminBindAddress and adminService"):
        await second.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", public)
    await second.stop(0.1)
