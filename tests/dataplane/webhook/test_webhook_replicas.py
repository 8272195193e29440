"""The replicas of the reference broker, over real sockets; and the wire that they are called on."""

from collections.abc import AsyncIterator

import pytest

from broker_ctl import codec
from broker_ctl.core.partitions.instructions import (
    STALE_EPOCH,
    WRONG_TOPIC_ID,
    ReplicaError,
    ReplicaStop,
)
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.webhook import replica_wire
from broker_ctl.dataplane.webhook.replica_wire import (
    HeldReplica,
    IsrAnswer,
    IsrProposal,
    ReplicaPlane,
)
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane, WebhookReplicas
from broker_ctl.dataplane.webhook.wire import MAX_REQUEST_BYTES
from broker_ctl.errors import DataPlaneRefused, DataPlaneUnreachable
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.time import ManualClock
from docs.examples.reference_broker import ReferenceBroker
from tests.support.http.web_server import free_port, serving
from tests.support.replicas.replica_planes import LAG_S, ORDERS, TOPIC_ID, instruction, state
from tests.support.time.waiting import PATIENCE_S

SECRET = "shared-by-both"
ALL = (1, 2, 3)
MANY = [TopicPartition(f"topic-{number // 10}-{'x' * 200}", number % 10) for number in range(3000)]


def plane_at(url: str, http: HttpClient) -> WebhookReplicas:
    return WebhookReplicas(WebhookDataPlane(url, http, ManualClock(), failure_timeout_s=3).link)


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=1 << 22) as client:
        yield client


@pytest.fixture
async def plane(http: HttpClient) -> AsyncIterator[ReplicaPlane]:
    async with serving(ReferenceBroker(SECRET, None, broker_id=1).app()) as url:
        yield plane_at(url, http)


async def test_the_life_of_a_replica(plane: ReplicaPlane) -> None:
    assert await plane.replicas() == []
    assert await plane.become_leader([instruction(state(1, 2, ALL))]) == []
    assert await plane.replicas() == [HeldReplica(ORDERS, TOPIC_ID, 2)]
    assert await plane.become_follower([instruction(state(2, 3, ALL))], {2: "b2:6650"}) == []
    assert await plane.replicas() == [HeldReplica(ORDERS, TOPIC_ID, 3)]
    stop = ReplicaStop(ORDERS, TOPIC_ID, 3, is_deleted=False)
    assert await plane.stop_replicas([stop]) == []
    assert await plane.stop_replicas([stop._replace(is_deleted=True)]) == []
    assert await plane.replicas() == []


async def test_refused_instructions_are_answered_by_partition(plane: ReplicaPlane) -> None:
    other = TopicPartition("other", 7)
    await plane.become_leader([instruction(state(1, 2, ALL)), instruction(state(1, 2, ALL), other)])
    again = [instruction(state(1, 1, ALL)), instruction(state(1, 5, ALL), other, topic_id="f" * 32)]
    assert await plane.become_leader(again) == [
        ReplicaError(ORDERS, STALE_EPOCH),
        ReplicaError(other, WRONG_TOPIC_ID),
    ]


async def test_proposals_and_their_answers(http: HttpClient) -> None:
    broker = ReferenceBroker(SECRET, None, broker_id=1)
    async with serving(broker.app()) as url:
        plane = plane_at(url, http)
        await plane.become_leader([instruction(state(1, 2, (1, 2)))])
        assert broker.replicas is not None
        leader = broker.replicas.table.replicas[ORDERS].leader
        assert leader is not None
        now_s = broker.clock.now_s()
        assert await plane.isr_proposals(LAG_S) == []
        leader._followers[2].caught_up_s = now_s - 1000
        leader._followers[2].end_offset = -1
        proposal = IsrProposal(ORDERS, 2, 20, (1,))
        assert await plane.isr_proposals(LAG_S) == [proposal]
        await plane.answer_proposals([IsrAnswer(ORDERS, None, is_granted=False)])
        assert await plane.isr_proposals(LAG_S) == [proposal]
        await plane.answer_proposals([IsrAnswer(ORDERS, state(1, 2, (1,), 21), is_granted=True)])
        assert await plane.isr_proposals(LAG_S) == []
        assert (leader.isr, leader.version) == ((1,), 21)


async def test_a_follower_lags_by_the_lag_time_that_the_daemon_sends(http: HttpClient) -> None:
    broker = ReferenceBroker(SECRET, None, broker_id=1)
    async with serving(broker.app()) as url:
        plane = plane_at(url, http)
        await plane.become_leader([instruction(state(1, 2, (1, 2)))])
        assert broker.replicas is not None
        leader = broker.replicas.table.replicas[ORDERS].leader
        assert leader is not None
        leader._followers[2].caught_up_s = broker.clock.now_s() - 1000
        leader._followers[2].end_offset = -1
        assert await plane.isr_proposals(100_000.0) == []
        assert [proposal.isr for proposal in await plane.isr_proposals(900.0)] == [(1,)]


async def test_a_throttle_and_the_replicas_that_it_applies_to_reach_the_broker_process(
    http: HttpClient,
) -> None:
    broker = ReferenceBroker(SECRET, None, broker_id=1)
    other = TopicPartition("other", 7)
    async with serving(broker.app()) as url:
        plane = plane_at(url, http)
        led = instruction(state(1, 2, (1, 2)))
        await plane.become_leader([led._replace(adding=(3,)), led._replace(partition=other)])
        assert broker.replicas is not None
        held = broker.replicas.table.replicas
        leaders = [held[each].leader for each in (ORDERS, other)]
        assert [leader and leader.adding for leader in leaders] == [(3,), ()]
        await plane.become_follower([instruction(state(2, 3, ALL))._replace(adding=(1,))], {})
        follower = held[ORDERS].follower
        assert follower is not None
        assert follower.adding == (1,)
        await plane.isr_proposals(LAG_S, 5000)
        assert broker.replicas.leaders.throttle.rate == 5000
        await plane.isr_proposals(LAG_S)
        assert broker.replicas.leaders.throttle.rate is None


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "1e3", "\u0663", "9" * 5000, str(1 << 63)])
def test_numbers_in_a_request_for_proposals_are_judged(text: str) -> None:
    with pytest.raises(ValueError, match="lag_time_max_ms"):
        replica_wire.lag_time_s({"lag_time_max_ms": text})
    with pytest.raises(ValueError, match="throttle_bytes_per_s"):
        replica_wire.throttle({"throttle_bytes_per_s": text})


@pytest.mark.parametrize("adding", [7, [7], [["orders", 0]], [["orders", 0, 1]], [["o", "x", []]]])
def test_added_replicas_are_judged(adding: object) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        replica_wire.decode_instruction({"topics": {}, "partitions": [], "adding": adding})


def test_a_lag_time_goes_over_the_wire_in_milliseconds() -> None:
    assert (
        replica_wire.wishes_path(12.5) == "/dataplane/v1/replicas/isr-wishes?lag_time_max_ms=12500"
    )
    assert replica_wire.lag_time_s({"lag_time_max_ms": "12500"}) == 12.5
    assert replica_wire.lag_time_s({}) is None


def test_new_addresses_are_sent_without_a_follower_and_nothing_is_without_either() -> None:
    (body,) = replica_wire.encode_instructions([], {1: "h1:6650"})
    assert replica_wire.decode_instruction(body) == []
    assert replica_wire.brokers(body) == {1: "h1:6650"}
    assert list(replica_wire.encode_instructions([])) == []


async def test_thousands_go_in_bodies_that_are_small_enough(plane: ReplicaPlane) -> None:
    new = [instruction(state(1, 2, ALL), one) for one in MANY]
    brokers = {number: f"broker-{number}.example.net:6650" for number in range(100)}
    bodies = [codec.encode(body) for body in replica_wire.encode_instructions(new, brokers)]
    assert len(bodies) > 1
    assert max(map(len, bodies)) <= MAX_REQUEST_BYTES
    assert [
        one for body in bodies for one in replica_wire.decode_instruction(codec.decode(body))
    ] == new
    assert replica_wire.brokers(codec.decode(bodies[-1])) == brokers
    assert await plane.become_leader(new) == []
    assert await plane.replicas() == [HeldReplica(one, TOPIC_ID, 2) for one in MANY]
    stops = [ReplicaStop(one, TOPIC_ID, 2, is_deleted=True) for one in MANY]
    assert max(len(codec.encode(body)) for body in replica_wire.encode_stops(stops)) <= (
        MAX_REQUEST_BYTES
    )
    answers = [IsrAnswer(one, state(1, 2, ALL), is_granted=True) for one in MANY]
    await plane.answer_proposals(answers)
    read = [
        answer
        for body in replica_wire.encode_answers(answers)
        for answer in replica_wire.answers(codec.decode(codec.encode(body)))
    ]
    assert read == answers
    assert await plane.stop_replicas(stops) == []
    assert await plane.replicas() == []


async def test_empty_instructions_and_answers_make_no_call(http: HttpClient) -> None:
    plane = plane_at(f"http://127.0.0.1:{free_port()}", http)
    assert await plane.become_leader([]) == []
    await plane.answer_proposals([])
    with pytest.raises(DataPlaneUnreachable):
        await plane.replicas()


async def test_a_broker_process_without_replicas_refuses(http: HttpClient) -> None:
    async with serving(ReferenceBroker(SECRET, None).app()) as url:
        with pytest.raises(DataPlaneRefused, match="/replicas: 404"):
            await plane_at(url, http).replicas()


@pytest.mark.parametrize(
    ("read", "payload", "what"),
    [
        (replica_wire.errors, {}, "errors: list expected"),
        (replica_wire.errors, {"errors": [["t", 0, "bored"]]}, "reason 'bored'"),
        (replica_wire.errors, {"errors": [["t", -1, "failed"]]}, "a number from 0 on"),
        (replica_wire.replicas, {"replicas": [["t", 0, "id"]]}, "does not fit"),
        (replica_wire.replicas, {"replicas": 7}, "replicas: list expected"),
        (replica_wire.replicas, {"replicas": [["a/b", 0, "id", 1, False]]}, "InvalidName"),
        (replica_wire.wishes, {"wishes": [["..", 0, 1, 1, [1]]]}, "InvalidName"),
        (replica_wire.wishes, {"wishes": [["t", 0, 1, 1, ["x"]]]}, "does not fit"),
        (replica_wire.decode_instruction, {"topics": {}, "partitions": [["t", 0]]}, "does not fit"),
        (replica_wire.answers, {"answers": [["t", 0, [1], True]]}, "does not fit"),
        (replica_wire.stops, {"stops": [7]}, "does not fit"),
        (replica_wire.brokers, {"brokers": {"one": "b:1"}}, "invalid literal"),
    ],
)
def test_what_does_not_fit_says_what_it_was(read: "object", payload: object, what: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match=what):
        read(payload)
