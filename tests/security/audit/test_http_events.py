"""What a server records of requests over real sockets."""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from broker_ctl.api.http.access import audit as audit_trail
from broker_ctl.api.http.access.peer_requests import PeerRequests
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.clock import SystemClock
from broker_ctl.codec import decode_object
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.audit.event import verify
from broker_ctl.security.audit.log import MAX_OF_ADDRESS, AuditLog, AuditRules
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.signed_requests import START_HEADER, RequestSigner
from broker_ctl.security.static_tokens import StaticTokens
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
    start: str


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
            request_id, start = (
                reply.headers.get(name, "") for name in ("X-Request-Id", START_HEADER)
            )
            return Reply(reply.status, request_id, await reply.text(), start)

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
    file: Path,
    api: ApiRules | None = None,
    *,
    syslog: str = "",
    is_required: bool = False,
    port: int | None = None,
) -> AsyncIterator[Server]:
    api = api or ApiRules(CLUSTER, **ADMITTING)
    audit = AuditRules(file, syslog=syslog, is_required=is_required)
    async with (
        serving_brokers([port or free_port()], api, audit=audit) as [broker],
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
    # The others are written as one sum: after a minute, or at the end.
    await server.log.close()
    events = [decode_object(line) for line in server.file.read_bytes().splitlines()]
    *listed, further = [event for event in events if event["kind"] == "refusal"]
    assert len(listed) == MAX_OF_ADDRESS
    assert (further["count"], further["status"], further["address"]) == (50, "401", "127.0.0.1")
    assert listed[-1]["at_ms"] <= further["since_ms"] <= further["at_ms"]
    assert not any("lost" in event for event in events)


async def test_a_command_names_the_broker_that_signed_it(tmp_path: Path) -> None:
    keys, clock = ClusterKeys.of([bytes(32)]), SystemClock()
    port = free_port()
    own_id = f"127.0.0.1:{port}"
    peers = PeerRequests(
        keys,
        own_id,
        clock,
        role="broker",
        is_required=True,
        on_refusal=lambda _: None,
        bounds=BoundInstruments(),
    )
    file, path = tmp_path / "audit.log", "/control/v1/acquire"
    async with serving(
        file, replace(ApiRules(CLUSTER, **ADMITTING), peers=peers), port=port
    ) as one:
        signer = RequestSigner(keys, "controller:8080")
        signed = signer.sign(own_id, "POST", path, b"", clock.wall_ms())
        start = (await one.send("POST", path, **signed)).start
        # As brokers do it: what has to be signed for the start may be a repetition, and proves
        # nothing of who sends it.
        signed = signer.sign(own_id, "POST", path, b"", clock.wall_ms(), start=start)
        await one.send("POST", path, **signed)
        (event,) = await one.events(1)
    assert (event["principal"], event["proof"]) == ("controller:8080", "signed-request")
    assert (event["kind"], event["operation"]) == ("change", "POST")


async def overridden(server: Server) -> object:
    reply = await server.send("GET", "/admin/v2/brokers/configuration/values", ADMIN)
    return decode_object(reply.body.encode()).get(KEY)


async def test_a_change_is_made_only_after_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "audit.log", is_required=True) as server:
        await server.events(0)

        def fail(_: int) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", fail)
            # Also the first change finds out, and is not made.
            refused = await server.send("POST", CHANGE, ADMIN)
            assert (refused.status, server.log.is_failing) == (503, True)
            assert "AuditUnavailable" in refused.body
            assert await overridden(server) is None
            assert (await server.send("GET", "/control/v1/status", ADMIN)).status == 200
        # And the first one after the repair is made.
        done = await server.send("POST", CHANGE, ADMIN)
        assert (done.status, server.log.is_failing) == (204, False)
        assert await overridden(server) == "7"
        events = await server.events(4)
        assert [(event["kind"], event.get("status")) for event in events] == [
            ("attempt", None),
            ("refusal", "503"),
            ("attempt", None),
            ("change", "204"),
        ]
        assert [event["request_id"] for event in events] == [refused.request_id] * 2 + [
            done.request_id
        ] * 2
    assert "cannot write the audit log: no space left" in caplog.text


async def test_a_disk_that_hangs_stops_changes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_repaired = threading.Event()
    synchronise = os.fdatasync

    def hang(file: int) -> None:
        is_repaired.wait(PATIENCE_S)
        synchronise(file)

    monkeypatch.setattr(audit_trail, "_WRITE_LIMIT_S", 0.2)
    async with serving(tmp_path / "audit.log", is_required=True) as server:
        await server.events(0)
        monkeypatch.setattr(os, "fdatasync", hang)
        try:
            assert (await server.send("POST", CHANGE, ADMIN)).status == 503
            assert await overridden(server) is None
        finally:
            is_repaired.set()
        assert (await server.send("POST", CHANGE, ADMIN)).status == 204


async def test_a_proxy_is_recorded_beside_the_principal_that_it_acts_for(tmp_path: Path) -> None:
    roles = ClusterRoles(frozenset({"gateway", "anna"}), proxies=frozenset({"gateway"}))
    tokens = Authenticator([StaticTokens.parse(f"gateway:{ADMIN}\n")])
    api = ApiRules(CLUSTER, authenticator=tokens, policy=AuthorizationPolicy(roles))
    async with serving(tmp_path / "audit.log", api) as server:
        sent = await server.send("POST", CHANGE, ADMIN, X_Original_Principal="anna")
        assert sent.status == 204
        (event,) = await server.events(1)
    assert (event["principal"], event["original_principal"]) == ("gateway", "anna")


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
