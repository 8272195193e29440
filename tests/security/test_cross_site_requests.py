"""Requests that a web page makes through a browser which can reach a daemon."""

import asyncio
import json
import logging
from collections.abc import Mapping

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port

KEY = "maxConcurrentLookupRequest"
CHANGE = f"POST /admin/v2/brokers/configuration/{KEY}/1"
DELETE = f"DELETE /admin/v2/brokers/configuration/{KEY}"
READ = "GET /admin/v2/brokers/configuration/values"
EVIL = "https://evil.example"


async def answer_to(broker: Broker, what: str, headers: Mapping[str, str]) -> bytes:
    """The whole response to a request without a body, as the browser of a web page sends it."""
    host, port = broker.broker_id.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = {"Host": broker.broker_id, **headers, "Connection": "close", "Content-Length": "0"}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"{what} HTTP/1.1\r\n{head}\r\n".encode())
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


async def overrides(broker: Broker) -> object:
    """The settings that were changed, as the store has them."""
    _, _, body = (await answer_to(broker, READ, {})).partition(b"\r\n\r\n")
    return json.loads(body)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_site_gives_no_bundle_an_owner(site: str) -> None:
    """A lookup is a GET, which pages of all sites may send; clients of Pulsar name no site."""
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    async with serving_brokers([free_port()]) as [broker]:
        for path in (
            "/lookup/v2/topic/persistent/t/ns/x",
            "/lookup/v2/topic/persistent/t/ns/x/bundle",
            "/lookup/v2/topic/persistent/t/cluster/ns/x",
        ):
            answer = await answer_to(broker, f"GET {path}", headers)
            assert answer.startswith(b"HTTP/1.1 403 "), answer
        assert broker.ownership.owned() == {}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": EVIL, "Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"},
        {"Origin": f"{EVIL}:443", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_changes_nothing(
    headers: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_brokers([free_port()]) as [broker]:
        answer = await answer_to(broker, CHANGE, headers)
        assert answer.startswith(b"HTTP/1.1 403 "), answer
        assert await overrides(broker) == {}
        assert counted(broker, "403") == 1
    (line,) = [one for one in caplog.messages if one.startswith("rejected with 403")]
    assert "a web page of another site" in line


@pytest.mark.parametrize("what", [CHANGE, DELETE, READ, "GET /nowhere"])
@pytest.mark.parametrize("port", ["", ":8080", ":x"])
@pytest.mark.parametrize(
    "name", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]", "127.1"]
)
async def test_a_name_that_a_foreign_site_points_at_the_daemon_is_refused(
    what: str, name: str, port: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_brokers([free_port()]) as [broker]:
        host = name + port
        answer = await answer_to(broker, what, {"Host": host, "Origin": f"http://{host}"})
        assert answer.startswith(b"HTTP/1.1 421 "), answer
        assert b"httpAllowedHosts" in answer
        assert await overrides(broker) == {}
        assert counted(broker, "421") == 1
    assert [one for one in caplog.messages if one.startswith("rejected with 421")]


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "10.0.0.1:8080", "[::1]:8080", "[fe80::1]", "lb.example.", ""],
)
@pytest.mark.parametrize("site", ["", "none", "same-origin"])
async def test_clients_and_pages_of_the_server_are_served(host: str, site: str) -> None:
    rules = ApiRules(CLUSTER, hosts=("LB.example",))
    async with serving_brokers([free_port()], rules) as [broker]:
        headers = {"Host": host}
        if site:
            headers["Sec-Fetch-Site"] = site
        if site and host:
            headers["Origin"] = f"http://{host.lower()}"
        answer = await answer_to(broker, CHANGE, headers)
        assert answer.startswith(b"HTTP/1.1 204 "), answer
        assert await overrides(broker) == {KEY: "1"}


async def test_a_flood_of_foreign_pages_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving_brokers([free_port()]) as [broker]:
        for _ in range(50):
            await answer_to(broker, CHANGE, {"Origin": EVIL})
        assert counted(broker, "403") == 50
    assert len([one for one in caplog.messages if one.startswith("rejected with")]) == 10


@pytest.mark.parametrize(
    "request_line",
    ["GET /livez", "GET /metrics", READ, CHANGE, "GET /nowhere", "PATCH /livez", "N(NSENSE /", "x"],
)
async def test_a_response_says_how_to_take_it_and_not_what_made_it(request_line: str) -> None:
    async with serving_brokers([free_port()]) as [broker]:
        head = (await answer_to(broker, request_line, {})).partition(b"\r\n\r\n")[0].lower()
        assert b"\r\nx-content-type-options: nosniff" in head
        assert b"\r\nserver:" not in head
        assert b"python" not in head
        assert b"aiohttp" not in head


def counted(broker: Broker, status: str) -> float:
    """Requests that were answered with this status."""
    samples = broker.instruments.api.requests.samples()
    return sum(one.value for one in samples if one.labels["status"] == status)
