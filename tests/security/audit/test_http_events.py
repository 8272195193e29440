"""What a server records of requests over real sockets."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.codec import decode_object
from broker_ctl.security.audit.budget import MAX_OF_ADDRESS
from broker_ctl.security.audit.chain import verify
from broker_ctl.security.audit.log import AuditLog, AuditRules
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S, eventually

ADMIN, READER = "0123456789abcdef-admin", "0123456789abcdef-reader"
ADMITTING = admitting(f"admin:{ADMIN}\nreader:{READER}", ["admin"], ["reader"])
KEY = "maxConcurrentLookupRequest"
CHANGE = f"/admin/v2/brokers/configuration/{KEY}/7"
ROUTE = "/admin/v2/brokers/configuration/{name}/{value}"


class Reply(NamedTuple):
    """A response."""

    status: int
    request_id: str
    body: str


class Server:
    """A server with an audit file."""

    def __init__(self, broker: Broker, http: aiohttp.ClientSession, file: Path) -> None:
        self.broker = broker
        self.log: AuditLog = broker.dependencies.audit
        self._http = http
        self.file = file

    async def send(self, method: str, path: str, token: str | None = None, **headers: str) -> Reply:
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        url = f"http://{self.broker.broker_id}{path}"
        async with self._http.request(method, url, headers=sent) as reply:
            return Reply(reply.status, reply.headers.get("X-Request-Id", ""), await reply.text())

    async def events(self, number: int) -> list[dict[str, Any]]:
        """The first events after the start, once this number is written."""

        async def are_written() -> bool:
            return self.file.read_bytes().count(b"\n") == number + 1

        await eventually(are_written)
        lines = self.file.read_bytes().splitlines(keepends=True)
        verify(lines)
        return [decode_object(line) for line in lines[1:]]


@asynccontextmanager
async def serving(
    file: Path, api: ApiRules | None = None, *, syslog: str = "", is_required: bool = False
) -> AsyncIterator[Server]:
    api = api or ApiRules(CLUSTER, **ADMITTING)
    audit = AuditRules(file, syslog=syslog, is_required=is_required)
    async with (
        serving_brokers([free_port()], api, audit=audit) as [broker],
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as http,
    ):
        yield Server(broker, http, file)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path / "audit.log") as one:
        yield one


async def test_a_change_with_who_where_what_before_and_after(server: Server) -> None:
    reply = await server.send("POST", CHANGE, ADMIN, X_Request_Id="ticket-42")
    assert (reply.status, reply.request_id) == (204, "ticket-42")
    (event,) = await server.events(1)
    for name in ("format", "hash", "previous", "at_ms"):
        assert event.pop(name)
    assert event == {
        "sequence": 2,
        "kind": "change",
        "broker": server.broker.broker_id,
        "request_id": "ticket-42",
        "principal": "admin",
        "proof": "static-token",
        "address": "127.0.0.1",
        "operation": "POST",
        "route": ROUTE,
        "target": CHANGE,
        "status": "204",
        "before": {KEY: None},
        "after": {KEY: "7"},
    }


async def test_a_change_that_fails_has_its_reason(server: Server) -> None:
    await server.send("POST", CHANGE, ADMIN)
    await server.send("POST", CHANGE.replace("/7", "/-7"), ADMIN)
    done, failed = await server.events(2)
    assert (failed["kind"], failed["status"]) == ("change", "412")
    assert KEY in failed["reason"]
    assert failed["before"] == done["after"]


@pytest.mark.parametrize(
    ("token", "status", "principal"),
    [(None, "401", None), ("wrong-wrong-wrong-wrong", "401", None), (READER, "403", "reader")],
)
async def test_a_refusal_names_the_role_and_never_the_token(
    server: Server, tmp_path: Path, token: str | None, status: str, principal: str | None
) -> None:
    reply = await server.send("POST", CHANGE, token)
    (event,) = await server.events(1)
    assert (event["kind"], event["status"]) == ("refusal", status)
    assert event.get("principal") == principal
    assert event["request_id"] == reply.request_id
    assert "wrong-wrong" not in (tmp_path / "audit.log").read_text()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, "421"),
        ({"Origin": "https://evil.example"}, "403"),
        ({"Content_Encoding": "gzip"}, "415"),
    ],
)
async def test_a_refusal_before_anybody_is_authenticated(
    server: Server, headers: dict[str, str], status: str
) -> None:
    await server.send("POST", CHANGE, ADMIN, **headers)
    (event,) = await server.events(1)
    assert (event["kind"], event["status"]) == ("refusal", status)


async def test_a_read_that_is_refused_and_one_that_is_not(server: Server) -> None:
    assert (await server.send("GET", "/control/v1/status", READER)).status == 200
    assert (await server.send("GET", "/admin/v2/tenants", READER)).status == 403
    (event,) = await server.events(1)
    assert event["target"] == "/admin/v2/tenants"


async def test_a_dry_run_changes_nothing_and_is_not_recorded(server: Server) -> None:
    assert (await server.send("POST", f"{CHANGE}?dry_run=true", ADMIN)).status == 200
    await server.send("POST", CHANGE, ADMIN)
    (event,) = await server.events(1)
    assert event["status"] == "204"


async def test_a_name_that_a_client_only_claims_is_marked(tmp_path: Path) -> None:
    async with serving(tmp_path / "audit.log", ApiRules(CLUSTER)) as server:
        await server.send("POST", f"{CHANGE}?by=mallory", None)
        await server.send("POST", CHANGE, None)
        claimed, anonymous = await server.events(2)
    assert (claimed["principal"], claimed["proof"]) == ("mallory", "claimed")
    assert not {"principal", "proof"} & anonymous.keys()


async def test_a_request_id_that_could_forge_a_line_is_replaced(server: Server) -> None:
    reply = await server.send("POST", CHANGE, ADMIN, X_Request_Id='x", "status": "500')
    (event,) = await server.events(1)
    assert event["request_id"] == reply.request_id
    assert event["request_id"].isalnum()


async def test_a_flood_of_refusals_neither_fills_the_log_nor_hides_a_change(server: Server) -> None:
    for _ in range(MAX_OF_ADDRESS + 50):
        assert (await server.send("POST", CHANGE)).status == 401
    await server.send("POST", CHANGE, ADMIN)

    async def is_recorded() -> bool:
        return b'"status":"204"' in server.file.read_bytes()

    await eventually(is_recorded)
    events = [decode_object(line) for line in server.file.read_bytes().splitlines()]
    assert [event["kind"] for event in events].count("refusal") == MAX_OF_ADDRESS
    assert sum(event.get("lost", 0) for event in events) == 50


async def is_failing(server: Server) -> bool:
    return server.log.is_failing


async def is_working(server: Server) -> bool:
    return not server.log.is_failing


async def test_a_required_log_that_cannot_be_written_stops_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "audit.log", is_required=True) as server:
        await server.events(0)

        def fail(_: int) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", fail)
            # Found by the first event that cannot be written.
            assert (await server.send("POST", CHANGE, ADMIN)).status == 204

            await eventually(lambda: is_failing(server))
            refused = await server.send("DELETE", CHANGE.removesuffix("/7"), ADMIN)
            assert refused.status == 503
            assert "AuditUnavailable" in refused.body
            assert (await server.send("GET", "/control/v1/status", ADMIN)).status == 200
        # The event of a refusal is the next attempt to write.
        await server.send("POST", CHANGE, ADMIN)
        await server.events(3)
        await eventually(lambda: is_working(server))
        assert (await server.send("POST", CHANGE, ADMIN)).status == 204
    assert "cannot write the audit log: no space left" in caplog.text


async def test_syslog_receives_each_line(tmp_path: Path) -> None:
    path = tmp_path / "syslog"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(0)
        async with serving(tmp_path / "audit.log", syslog=str(path)) as server:
            await server.send("POST", CHANGE, ADMIN)
            await server.events(1)
            received = [
                await asyncio.wait_for(asyncio.get_running_loop().sock_recv(listener, 9_000), 10)
                for _ in range(2)
            ]
        lines = (tmp_path / "audit.log").read_bytes().splitlines()
    for message, line in zip(received, lines, strict=True):
        head, _, body = message.partition(b" audit - ")
        # Facility authpriv (10), severity info (6), and version 1 of RFC 5424.
        assert head.startswith(b"<86>1 20")
        assert body == line
