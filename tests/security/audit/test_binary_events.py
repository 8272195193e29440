"""What is recorded of the binary protocol, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.clock import SystemClock
from broker_ctl.codec import decode_object
from broker_ctl.core.model.names import Topic
from broker_ctl.security.audit.log import AuditLog, AuditRules
from tests.api.binary.serving import SELF, Served, serving
from tests.api.binary.test_original_principals import APP, PROXY, RULES, TOPIC, allow, connect
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.binary_client import BinaryClient, lookup, partitions
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting


@asynccontextmanager
async def auditing(file: Path) -> AsyncIterator[Served]:
    log = AuditLog(AuditRules(file), "b:1", SystemClock())
    await log.start()
    try:
        async with serving(replace(RULES, audit=log)) as served:
            yield served
    finally:
        await log.close()


def refusals(file: Path) -> list[dict[str, Any]]:
    rows = map(decode_object, file.read_bytes().splitlines())
    return [row for row in rows if row["kind"] == "refusal"]


async def test_a_refused_connection_is_recorded_without_its_token(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    async with auditing(file) as served:
        for token in ("a-secret-of-nobody", PROXY):
            async with BinaryClient.to(served.port) as client:
                await client.ask(connect(token))
    unknown, nameless = refusals(file)
    assert (unknown["operation"], unknown["status"]) == ("CONNECT", "AuthenticationError")
    assert (unknown["address"], unknown["broker"]) == ("127.0.0.1", "b:1")
    assert unknown["request_id"]
    assert "has to name the original principal" in nameless["reason"]
    assert "a-secret" not in file.read_text()


async def test_a_broker_records_both_protocols_in_one_log(tmp_path: Path) -> None:
    file, port = tmp_path / "audit.log", free_port()
    api = ApiRules(CLUSTER, lookup_port=port, **admitting("admin:0123456789abcdef", ["admin"]))
    async with serving_brokers([free_port()], api, audit=AuditRules(file)) as [broker]:
        async with BinaryClient.to(port) as client:
            await client.ask(connect("a-secret-of-nobody"))
        await broker.dependencies.audit.close()
    (event,) = refusals(file)
    assert (event["operation"], event["broker"]) == ("CONNECT", broker.broker_id)


async def test_a_request_without_a_grant_is_recorded_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    async with auditing(file) as served:
        async with BinaryClient.to(served.port) as client:
            await client.ask(connect(PROXY, original_principal="app"))
            await client.ask(lookup(TOPIC, 7))
            await client.ask(partitions(TOPIC, 8))
            allow(served, "proxy", "app")
            await client.ask(lookup(TOPIC, 9))
            # An error, but not a refusal.
            await client.ask(lookup("no topic", 10))
        served.lookup.remembered[Topic.parse(TOPIC)] = SELF
        async with BinaryClient.to(served.port) as client:
            await client.ask(connect(APP))
            await client.ask(lookup(TOPIC, 11, original_principal="root"))
    found = [
        (row["operation"], row["request_id"], row["principal"], row.get("original_principal"))
        for row in refusals(file)
    ]
    assert found == [
        ("LOOKUP", "7", "proxy", "app"),
        ("PARTITIONED_METADATA", "8", "proxy", "app"),
        ("LOOKUP", "11", "app", None),
    ]
    assert {row["target"] for row in refusals(file)} == {TOPIC}
    assert {row["status"] for row in refusals(file)} == {"AuthorizationError"}
