"""Instructions over HTTP: acknowledged, refused as stale, or to be sent again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.broker.replicas.instructions import Handled
from broker_ctl.broker.replicas.lifecycle import Replicas
from broker_ctl.codec import encode
from broker_ctl.core.partitions.instructions import STORAGE_ERROR, Instruction, ReplicaError
from broker_ctl.errors import AuthorityLost, BrokerCtlError, DataPlaneUnreachable, Fenced
from broker_ctl.http_client import HttpClient, HttpReply
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker
from tests.support.replicas.instructions import (
    instruct,
    named,
    replica_state,
    span_of,
    stop,
)
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

PATH = "/control/v1/instructions"


class FakeReplicas(Replicas):
    """Obeys, or raises what a test wants."""

    @property
    def newest_controller_epoch(self) -> int:
        return 12

    def __init__(self) -> None:
        self.obeyed: list[Instruction] = []
        self.errors: tuple[ReplicaError, ...] = ()
        self.differing: tuple[int, ...] = ()
        self.raised: BrokerCtlError | None = None

    async def handle(self, instruction: Instruction) -> Handled:
        if self.raised is not None:
            raise self.raised
        self.obeyed.append(instruction)
        return Handled(77, self.errors, self.differing)


class Instructed:
    """A broker that takes instructions, and a client that sends them."""

    def __init__(self, http: HttpClient, url: str, replicas: FakeReplicas) -> None:
        self.http = http
        self.url = url
        self.replicas = replicas

    async def send(self, body: Instruction | bytes) -> HttpReply:
        data = body if isinstance(body, bytes) else encode(body.to_row())
        return await self.http.request("POST", self.url + PATH, content=data)


def _entry(place: int, value: Any) -> bytes:
    """An instruction with this at one place of its only entry."""
    row = instruct(replica_state("t-0", 1), broker_epoch=1).to_row()
    row["partitions"][0][place] = value
    return encode({**row, "topics": {"t": "", str(row["partitions"][0][0]): ""}})


def _stop(entry: list[Any]) -> bytes:
    return encode({**instruct(broker_epoch=1).to_row(), "stops": [entry]})


def _without(row: dict[str, Any], name: str) -> bytes:
    """Without it, as one with digests is to a release that does not know them."""
    return encode({field: value for field, value in row.items() if field != name})


@asynccontextmanager
async def instructed(broker: Broker, http: HttpClient, **rules: Any) -> AsyncIterator[Instructed]:
    replicas = FakeReplicas()
    dependencies = replace(broker.dependencies, replicas=replicas)
    api = ApiServer(dependencies, ApiRules(CLUSTER, port=0, **rules))
    await api.start()
    try:
        yield Instructed(http, f"http://127.0.0.1:{api.port}", replicas)
    finally:
        await api.stop(1.0)


async def test_an_instruction_is_obeyed_as_it_was_sent_and_acknowledged(
    http: HttpClient, leader: Broker
) -> None:
    sent = instruct(
        replica_state("t-0", 1, 3, version=8),
        stop("t-1", 2, is_deleted=True),
        broker_epoch=77,
        is_full=True,
        after="a-0",
        until="z-9",
    )
    async with instructed(leader, http) as one:
        reply = await one.send(sent)
        assert (reply.status, reply.json()) == (200, {"broker_epoch": 77, "errors": []})
        assert one.replicas.obeyed == [sent]


async def test_an_answer_names_each_partition_that_failed(http: HttpClient, leader: Broker) -> None:
    async with instructed(leader, http) as one:
        one.replicas.errors = (ReplicaError(named("t-4"), STORAGE_ERROR),)
        reply = await one.send(instruct(replica_state("t-4", 1), broker_epoch=77))
        assert reply.status == 200
        assert reply.json()["errors"] == [["t", 4, "storage_error"]]


async def test_an_instruction_with_digests_arrives_and_its_answer_has_the_spans_that_differ(
    http: HttpClient, leader: Broker
) -> None:
    spans = (span_of(until="t-0"), span_of(replica_state("u-0", 1), after="t-0"))
    sent = instruct(broker_epoch=77, is_full=True, spans=spans)
    async with instructed(leader, http) as one:
        for differing in ([], [1]):
            one.replicas.differing = tuple(differing)
            reply = await one.send(sent)
            answer = {"broker_epoch": 77, "errors": [], "differing": differing}
            assert (reply.status, reply.json()) == (200, answer)
        assert [(each.is_full, each.spans) for each in one.replicas.obeyed] == [(True, spans)] * 2


async def test_an_instruction_of_a_stale_controller_is_refused_with_the_newest_known_epoch(
    http: HttpClient, leader: Broker
) -> None:
    async with instructed(leader, http) as one:
        one.replicas.raised = Fenced("controller epoch 11 is stale: 12 was seen")
        reply = await one.send(instruct(broker_epoch=77, controller_epoch=11))
        assert reply.status == 409
        assert reply.json() == {
            "error": "Fenced",
            "reason": "controller epoch 11 is stale: 12 was seen",
            "controller_epoch": 12,
        }


@pytest.mark.parametrize("raised", [AuthorityLost("not yet"), DataPlaneUnreachable("silent")])
async def test_a_failure_that_may_pass_is_answered_with_503(
    http: HttpClient, leader: Broker, raised: BrokerCtlError
) -> None:
    async with instructed(leader, http) as one:
        one.replicas.raised = raised
        reply = await one.send(instruct(broker_epoch=77))
        assert (reply.status, reply.json()["error"]) == (503, type(raised).__name__)


async def test_the_body_of_an_instruction_has_a_limit_of_its_own(
    http: HttpClient, leader: Broker
) -> None:
    async with instructed(leader, http, max_body_bytes=1024) as one:
        many = [replica_state(f"{'t' * 200}-{number}", 1) for number in range(1000)]
        body = encode(instruct(*many, broker_epoch=77).to_row())
        assert 200 * 1024 < len(body) < 512 * 1024
        assert (await one.send(body)).status == 200
        fits = body + b" " * (512 * 1024 - len(body))
        assert (await one.send(fits)).status == 200
        refused = await one.send(fits + b" ")
        assert refused.status == 413
        assert "524288 bytes" in refused.json()["reason"]
        assert len(one.replicas.obeyed) == 2


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"", 400, "CorruptRecord"),
        (b"[]", 400, "CorruptRecord"),
        (b'{"version": 1}', 400, "CorruptRecord"),
        (b'{"version": 2}', 400, "NewerVersion"),
        (encode(instruct(broker_epoch=1, spans=[span_of()] * 17).to_row()), 400, "CorruptRecord"),
        (_without(instruct(broker_epoch=1).to_row(), "topics"), 400, "CorruptRecord"),
        (encode({**instruct(broker_epoch=1).to_row(), "spans": []}), 400, "CorruptRecord"),
        (_entry(0, "a/b"), 400, "CorruptRecord"),
        (_entry(1, "0"), 400, "CorruptRecord"),
        (_entry(3, value=True), 400, "CorruptRecord"),
        (_entry(6, [1, None]), 400, "CorruptRecord"),
        (_stop(["..", 0, "id", 1, False]), 400, "CorruptRecord"),
        (_stop(["t", 0, "id", 1.5, False]), 400, "CorruptRecord"),
    ],
)
async def test_an_invalid_instruction_is_refused(
    http: HttpClient, leader: Broker, body: bytes, status: int, kind: str
) -> None:
    async with instructed(leader, http) as one:
        reply = await one.send(body)
        assert (reply.status, reply.json()["error"]) == (status, kind)
        assert one.replicas.obeyed == []


async def test_a_body_without_a_content_type_is_refused(http: HttpClient, leader: Broker) -> None:
    async with instructed(leader, http) as one:
        reply = await http.request("POST", one.url + PATH)
        assert (reply.status, reply.json()["error"]) == (400, "Refusal")


async def test_only_super_users_instruct_where_tokens_are_required(
    http: HttpClient, leader: Broker
) -> None:
    admission = admitting(f"operator:{TOKEN}\n", ["operator"])
    async with instructed(leader, http, **admission) as one:
        assert (await one.send(instruct(broker_epoch=77))).status == 401
        async with HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as known:
            authorized = Instructed(known, one.url, one.replicas)
            assert (await authorized.send(instruct(broker_epoch=77))).status == 200


async def test_a_broker_without_a_broker_id_answers_instructions_with_404(
    http: HttpClient, leader: Broker
) -> None:
    reply = await http.request("POST", leader.url + PATH, json=instruct(broker_epoch=1).to_row())
    assert (reply.status, reply.json()["error"]) == (404, "NotReplicated")


async def test_results_are_counted(http: HttpClient, leader: Broker) -> None:
    async with instructed(leader, http) as one:
        await one.send(instruct(broker_epoch=77))
        one.replicas.raised = Fenced("old")
        await one.send(instruct(broker_epoch=77))
        text = (await http.request("GET", f"{one.url}/metrics")).body.decode()
    name = "broker_ctl_replica_instructions_total"
    for result in ("done", "Fenced"):
        line = next(
            each for each in text.splitlines() if f'result="{result}"' in each and name in each
        )
        assert line.endswith(" 1.0")
