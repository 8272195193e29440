"""Leaders of replicated partitions over HTTP."""

from dataclasses import replace

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import encode_broker, encode_state, encode_topic
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import eventually

TOPIC_ID = "0123456789abcdef" * 2
LEADER = "/partitions/v1/leader"
LED = {
    "partition": 1,
    "leader": 2,
    "address": "b2:6650",
    "leader_epoch": 4,
    "controller_epoch": 7,
    "isr": [2, 3],
    "replicas": [1, 2, 3],
    "is_recovering": False,
}
NOT_YET = {
    "partition": 0,
    "leader": -1,
    "address": None,
    "leader_epoch": -1,
    "controller_epoch": -1,
    "isr": [],
    "replicas": [1, 2, 3],
    "is_recovering": False,
}


async def write(broker: Broker) -> None:
    """A topic of two partitions, one of which has been initialised."""
    store, assigned = broker.metadata.store, Assignment((1, 2, 3))
    for path, data in (
        (
            paths.topic("orders"),
            encode_topic(TopicAssignment(TOPIC_ID, {0: assigned, 1: assigned})),
        ),
        (
            paths.leader_and_isr(TopicPartition("orders", 1)),
            encode_state(LeaderAndIsr(2, 4, (2, 3), 7)),
        ),
        (paths.broker(2), encode_broker(LiveBroker(2, 0, "b2", 6650), 1)),
    ):
        await store.create(path, data, make_parents=True)


async def test_every_broker_answers_also_without_a_controller(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    await write(leader)
    leader.world.controller_id = None
    for broker in (leader, follower):
        reply = await http.request("GET", f"{broker.url}{LEADER}/orders/1")
        assert (reply.status, reply.json()) == (
            200,
            {"topic": "orders", "topic_id": TOPIC_ID, **LED},
        )
        whole = await http.request("GET", f"{broker.url}{LEADER}/orders")
        assert (whole.status, whole.json()) == (
            200,
            {"topic": "orders", "topic_id": TOPIC_ID, "partitions": [NOT_YET, LED]},
        )


async def test_a_lookup_reports_a_change_of_the_partitions_leader(
    http: HttpClient, leader: Broker
) -> None:
    await write(leader)
    url = f"{leader.url}{LEADER}/orders/1"
    assert (await http.request("GET", url)).json()["leader"] == 2
    state = encode_state(LeaderAndIsr(3, 5, (3,), 7, is_recovering=True))
    path = paths.leader_and_isr(TopicPartition("orders", 1))
    await leader.metadata.store.set(path, state)

    async def is_reported() -> bool:
        row = (await http.request("GET", url)).json()
        state = (row["leader"], row["leader_epoch"], row["isr"], row["is_recovering"])
        return state == (3, 5, [3], True) and row["address"] is None

    await eventually(is_reported)


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("users", 404, "TopicMissing"),
        ("orders/2", 404, "TopicMissing"),
        ("orders/-1", 404, "HTTPNotFound"),
        ("orders/12345678901", 404, "HTTPNotFound"),
        ("a%20b/0", 412, "InvalidName"),
    ],
)
async def test_an_unknown_topic_or_partition_is_answered_with_its_error(
    http: HttpClient, leader: Broker, path: str, status: int, kind: str
) -> None:
    await write(leader)
    reply = await http.request("GET", f"{leader.url}{LEADER}/{path}")
    assert (reply.status, reply.json()["error"]) == (status, kind)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (ApiRules(CLUSTER, max_lookups=0), "0 lookups are in progress"),
        (ApiRules(CLUSTER, max_requests=0), "0 requests of clients are in progress"),
    ],
)
async def test_questions_of_clients_are_bounded_as_lookups_are(
    http: HttpClient, rules: ApiRules, said: str
) -> None:
    async with serving_brokers([free_port()], rules) as [one]:
        for path in ("orders", "orders/0"):
            reply = await http.request("GET", f"{one.url}{LEADER}/{path}")
            assert (reply.status, reply.json()) == (503, {"error": "Busy", "reason": said})


async def test_a_broker_that_takes_no_part_answers_too(http: HttpClient, leader: Broker) -> None:
    await write(leader)
    api = ApiServer(replace(leader.dependencies, partitions=None), ApiRules(CLUSTER, port=0))
    await api.start()
    reply = await http.request("GET", f"http://127.0.0.1:{api.port}{LEADER}/orders/1")
    assert (reply.status, reply.json()["leader"]) == (200, 2)
    await api.stop(1.0)
