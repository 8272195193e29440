"""Which role may send which request."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.errors import SettingsError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.static_tokens import StaticTokens
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

READER = "a-secret-of-another-user"
WATCHER = "a-secret-of-who-watches"
PROCESS = "a-secret-of-the-broker-process"
TOKENS = f"operator:{TOKEN}\n\n# others\nreader: {READER}\n"
RULES = ApiRules(CLUSTER, **admitting(TOKENS, ["operator"]), dataplane_secret=PROCESS.encode)

OPEN = [
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]
READS = [
    ("GET", "/admin/v2/brokers"),
    ("GET", "/admin/v2/namespaces/t/ns/bundles"),
    ("GET", "/admin/v2/clusters"),
    ("HEAD", "/admin/v2/brokers"),
    ("GET", "/lookup/v2/topic/persistent/t/ns/x"),
]
GUARDED = [
    ("GET", "/admin/v2/tenants"),
    ("GET", "/admin/v2/tenants/t"),
    ("PUT", "/admin/v2/tenants/t"),
    ("GET", "/admin/v2/clusters/c1"),
    ("GET", "/admin/v2/clusters/c1/peers"),
    ("DELETE", "/admin/v2/clusters/c1"),
    ("PUT", "/admin/v2/namespaces/t/new"),
    ("DELETE", "/admin/v2/namespaces/t/new"),
    ("PUT", f"/admin/v2/namespaces/t/ns/{BUNDLES[0].range}/unload"),
    ("GET", "/control/v1/status"),
    ("GET", "/control/v1/owners?namespace=t/ns"),
    ("POST", "/control/v1/acquire"),
    ("GET", "/control/v1/plan"),
    ("PUT", "/control/v1/pause"),
    ("DELETE", "/control/v1/drains/b:1"),
]


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with serving_brokers([free_port()], RULES) as [one]:
        yield one


async def status_of(broker: Broker, method: str, path: str, token: str | None) -> int:
    async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        return (await http.request(method, broker.url + path)).status


@pytest.mark.parametrize(("method", "path"), OPEN)
async def test_health_and_metrics_are_open(broker: Broker, method: str, path: str) -> None:
    assert await status_of(broker, method, path, None) == 200


@pytest.mark.parametrize(("method", "path"), READS)
async def test_reads_are_for_every_known_role(broker: Broker, method: str, path: str) -> None:
    assert await status_of(broker, method, path, None) == 401
    assert await status_of(broker, method, path, "a-secret-of-no-user") == 401
    assert await status_of(broker, method, path, READER) == 200


async def test_metrics_need_a_role_by_a_setting() -> None:
    rules = replace(RULES, authenticates_metrics=True)
    async with serving_brokers([free_port()], rules) as [one]:
        assert await status_of(one, "GET", "/metrics", None) == 401
        assert await status_of(one, "GET", "/metrics", READER) == 200
        assert await status_of(one, "GET", "/livez", None) == 200


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_the_rest_is_for_super_users(broker: Broker, method: str, path: str) -> None:
    assert await status_of(broker, method, path, None) == 401
    assert await status_of(broker, method, path, "a-secret-of-no-user") == 401
    assert await status_of(broker, method, path, PROCESS) == 401
    assert await status_of(broker, method, path, READER) == 403
    assert await status_of(broker, method, path, TOKEN) not in {401, 403}
    assert broker.commands.obeyed == []


async def test_another_spelling_of_a_path_needs_the_same_role(broker: Broker) -> None:
    # By hand: a client would write the path in its usual form.
    reader, writer = await asyncio.open_connection(*broker.broker_id.split(":"))
    writer.write(
        b"GET /%63ontrol/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_authority_is_for_the_broker_process(broker: Broker) -> None:
    path = "/dataplane/v1/authority"
    for token, status in ((None, 401), (TOKEN, 401), (PROCESS, 200)):
        assert await status_of(broker, "GET", path, token) == status


async def test_a_refusal_says_what_is_wanted_and_no_secret(broker: Broker) -> None:
    async with HttpClient(token=READER, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        forbidden = await http.request("GET", f"{broker.url}/control/v1/status")
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        unauthorized = await http.request("GET", f"{broker.url}/control/v1/status")
    assert unauthorized.headers["WWW-Authenticate"] == "Bearer"
    reason = (
        "role reader may not monitor the cluster: it is not in viewerRoles, operatorRoles or "
        "superUserRoles"
    )
    assert forbidden.json() == {"error": "Forbidden", "reason": reason}
    assert READER.encode() not in forbidden.body + repr(broker.api).encode()
    assert TOKEN not in repr(RULES)
    assert PROCESS not in repr(RULES)


async def test_brokers_show_each_other_their_token() -> None:
    ports = [free_port(), free_port()]
    async with serving_brokers(ports, RULES, TOKEN) as [one, other]:
        one.world.assign(BUNDLES[0], other.broker_id)
        path = "/admin/v2/namespaces/t/ns/unload"
        assert await status_of(one, "PUT", path, TOKEN) == 204
        assert not one.world.owners


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        f"reader:{READER}",
        f"operator {TOKEN}",
        f":{TOKEN}",
        "operator:short",
        "operator:with blanks in between",
        "operator:ümlaute-are-not-for-headers",
    ],
)
def test_a_secret_file_without_a_usable_token_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        StaticTokens.parse(text).first_of(["operator"])
    assert TOKEN not in str(caught.value)


async def test_a_role_that_may_read_sees_what_operators_see_and_does_nothing() -> None:
    admission = admitting(
        f"operator:{TOKEN}\nwatcher:{WATCHER}\nreader:{READER}", ["operator"], ["watcher"]
    )
    rules = ApiRules(CLUSTER, **admission)
    async with serving_brokers([free_port()], rules) as [guarded]:
        for path in ("status", "plan", "history", "drains", "cluster", "pause"):
            assert await status_of(guarded, "GET", f"/control/v1/{path}", WATCHER) == 200
            assert await status_of(guarded, "GET", f"/control/v1/{path}", READER) == 403
            assert await status_of(guarded, "GET", f"/control/v1/{path}", None) == 401
        for method, path in GUARDED:
            if method != "GET":
                assert await status_of(guarded, method, path, WATCHER) == 403
        assert await status_of(guarded, "GET", "/admin/v2/tenants", WATCHER) == 403
        assert await status_of(guarded, "PUT", "/control/v1/pause?dry_run=true", WATCHER) == 403
        assert guarded.directives.pause is None


# In the log.


def lines(caplog: pytest.LogCaptureFixture, module: str) -> list[str]:
    name = f"broker_ctl.api.http.access.{module}"
    return [record.getMessage() for record in caplog.records if record.name == name]


async def test_a_refused_client_is_logged_by_its_role_and_never_by_its_secret(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        await status_of(broker, "PUT", "/control/v1/pause", "a-secret-of-no-user")
        await status_of(broker, "PUT", "/control/v1/pause", READER)
        assert await status_of(broker, "PUT", "/control/v1/pause", TOKEN) == 200
    unknown, reader = lines(caplog, "authorization")
    assert "rejected with 401: PUT '/control/v1/pause' from 127.0.0.1, no known token" in unknown
    assert "with 403" in reader
    assert "role reader" in reader
    assert READER not in caplog.text
    assert "a-secret-of-no-user" not in caplog.text


async def test_a_flood_of_refusals_does_not_fill_the_log(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(30):
            await status_of(broker, "PUT", "/control/v1/pause", None)
    assert len(lines(caplog, "authorization")) == 10


async def test_an_action_is_logged_with_the_role_that_requested_it(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert await status_of(broker, "PUT", "/control/v1/pause?by=mallory", TOKEN) == 200
        path = "/admin/v2/brokers/configuration/dryRun/perhaps"
        assert await status_of(broker, "POST", path, TOKEN) == 412
        await status_of(broker, "PUT", "/control/v1/pause?dry_run=true", TOKEN)
        await status_of(broker, "GET", "/control/v1/pause", TOKEN)
    assert lines(caplog, "audit") == [
        "operator at 127.0.0.1: PUT '/control/v1/pause?by=mallory': 200",
        f"operator at 127.0.0.1: POST '{path}': 412",
    ]


async def test_without_tokens_an_action_is_logged_with_the_name_that_the_client_claims(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving_brokers([free_port()]) as [open_broker]:
        with caplog.at_level(logging.INFO):
            async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
                body = {"by": "anna", "reason": "network"}
                await http.request("PUT", f"{open_broker.url}/control/v1/pause", json=body)
                await http.request("DELETE", f"{open_broker.url}/control/v1/pause")
    who = [line.partition(":")[0] for line in lines(caplog, "audit")]
    assert who == ["anna at 127.0.0.1", "unknown operator at 127.0.0.1"]
    assert "the balancing is paused by anna: network" in caplog.text
    assert "the pause of the balancing has ended" in caplog.text
