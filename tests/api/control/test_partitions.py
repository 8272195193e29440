"""Replicated partitions over HTTP: what operators order of the controller."""

from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.core.partitions.values import MIN_ISR, UNCLEAN, TopicPartition, TopicRules
from broker_ctl.errors import (
    BrokerCtlError,
    InvalidReplicas,
    NoController,
    OrderConflict,
    TopicExists,
)
from broker_ctl.http_client import HttpClient, HttpReply
from tests.support.clusters.controller_admin import EPOCH_OF_BROKER, NAMELESS, NEW_ID
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

ROOT = "/control/v1/partitions"
TOPIC = f"{ROOT}/topics/orders"
ADOPTED = f"{ROOT}/topics/{NAMELESS}/topic-id"
MOVES = f"{ROOT}/reassignments"
RATE = "throttle_bytes_per_s"
SHUTDOWN = "/control/v1/controlled-shutdown"
LISTS = {"replicas": {"0": [1, 2], "1": [2, 3]}}
# What each route is asked for: method, path, body.
ALL: list[tuple[str, str, Any]] = [
    ("GET", f"{ROOT}/controller", None),
    ("GET", f"{ROOT}/topics", None),
    ("GET", f"{ROOT}/transitions", None),
    ("GET", f"{ROOT}/explain?topic=orders&partition=0", None),
    ("GET", TOPIC, None),
    ("PUT", TOPIC, LISTS),
    ("POST", f"{TOPIC}?dry_run=true", {"partitions": 3}),
    ("DELETE", TOPIC, None),
    ("POST", f"{TOPIC}/rules", {"min_isr": 2, "unclean": False}),
    ("POST", f"{ROOT}/plan", {"topics": ["orders"], "brokers": [1, 2]}),
    ("GET", MOVES, None),
    ("PUT", MOVES, {"partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 4]}]}),
    ("DELETE", MOVES, None),
    ("POST", f"{ROOT}/elections", {"kind": "preferred"}),
    ("POST", SHUTDOWN, {"broker": 2, "broker_epoch": 702}),
    ("PUT", ADOPTED, {"topic_id": "5f" * 16}),
    ("POST", f"{MOVES}/throttle", {RATE: 5}),
]


async def ask(
    http: HttpClient, broker: Broker, method: str, path: str, body: Any = None
) -> HttpReply:
    return await http.request(method, broker.url + path, json=body)


async def create(http: HttpClient, broker: Broker) -> None:
    assert (await ask(http, broker, "PUT", TOPIC, LISTS)).status == 200


# Topics.


async def test_a_topic_is_created_read_extended_and_deleted(
    http: HttpClient, leader: Broker
) -> None:
    admin = leader.partition_admin
    made = await ask(http, leader, "PUT", TOPIC, {**LISTS, "min_isr": 2, "unclean": True})
    assert (made.status, [row["replicas"] for row in made.json()["partitions"]]) == (
        200,
        [[1, 2], [2, 3]],
    )
    rules = TopicRules(is_unclean_allowed=True, min_isr=2)
    assert admin.written == [("create", "orders", {0: (1, 2), 1: (2, 3)}, rules)]
    shown = (await ask(http, leader, "GET", TOPIC)).json()
    assert (shown["min_isr"], shown["unclean"], len(shown["partitions"])) == (2, True, 2)
    (row,) = (await ask(http, leader, "GET", f"{ROOT}/topics")).json()
    assert (row["topic"], row["partitions"]) == ("orders", 2)
    grown = await ask(http, leader, "POST", TOPIC, {"partitions": 3, "replicas": {"2": [4, 1]}})
    assert [row["partition"] for row in grown.json()["partitions"]] == [2]
    assert admin.written[1:] == [("grow", "orders", {2: (4, 1)})]
    assert (await ask(http, leader, "DELETE", TOPIC)).json() == {"topic": "orders", "partitions": 3}
    gone = await ask(http, leader, "GET", TOPIC)
    assert (gone.status, gone.json()["error"]) == (404, "TopicMissing")


@pytest.mark.parametrize("is_allowed", [True, False, None])
async def test_a_topic_may_forbid_what_the_cluster_allows(
    http: HttpClient, leader: Broker, is_allowed: bool | None
) -> None:
    assert (await ask(http, leader, "PUT", TOPIC, {**LISTS, "unclean": is_allowed})).status == 200
    assert leader.partition_admin.written[0][3] == TopicRules(is_allowed)


async def test_the_rules_of_a_topic_is_changed_field_by_field(
    http: HttpClient, leader: Broker
) -> None:
    await create(http, leader)
    admin, rules = leader.partition_admin, f"{TOPIC}/rules"
    for body in ({"min_isr": 2}, {"unclean": False}, {"min_isr": None, "unclean": None}):
        assert (await ask(http, leader, "POST", rules, body)).status == 200
    assert admin.written[1:] == [
        ("alter", "orders", {MIN_ISR: "2"}),
        ("alter", "orders", {UNCLEAN: "false"}),
        ("alter", "orders", {UNCLEAN: None, MIN_ISR: None}),
    ]


async def test_a_topic_without_an_id_is_adopted_once(http: HttpClient, leader: Broker) -> None:
    admin = leader.partition_admin
    kafkas = "mXn9Pd0HTq2Fxc8a5Nh_-g"
    for body, given in (
        ({}, NEW_ID),
        ({"topic_id": None}, NEW_ID),
        ({"topic_id": kafkas}, kafkas),
    ):
        adoption = (await ask(http, leader, "PUT", f"{ADOPTED}?dry_run=true", body)).json()
        assert adoption["topic_id"] == given
    assert admin.written == []
    adopted = await ask(http, leader, "PUT", ADOPTED, {"topic_id": "5f" * 16})
    assert (adopted.status, adopted.json()["dead"]) == (200, [9])
    assert admin.written == [("adopt", NAMELESS, "5f" * 16)]
    again = await ask(http, leader, "PUT", ADOPTED, {})
    assert (again.status, again.json()["error"]) == (409, OrderConflict.__name__)


@pytest.mark.parametrize("topic_id", ["", "5f" * 15, "5F" * 16, "5g" * 16, "a/b" * 8, "x" * 23])
async def test_an_id_of_another_form_is_refused(
    http: HttpClient, leader: Broker, topic_id: str
) -> None:
    reply = await ask(http, leader, "PUT", ADOPTED, {"topic_id": topic_id})
    assert (reply.status, reply.json()["error"]) == (412, "InvalidName")
    assert "a topic_id is 32 of 0-9a-f" in reply.json()["reason"]
    assert leader.partition_admin.written == []


async def test_a_topic_given_only_by_its_size_is_spread(http: HttpClient, leader: Broker) -> None:
    body = {"partitions": 3, "replication_factor": 2}
    made = (await ask(http, leader, "PUT", TOPIC, body)).json()
    assert [row["replicas"] for row in made["partitions"]] == [[1, 2], [2, 3], [3, 4]]
    body = {"partitions": 1, "replication_factor": 9}
    few = await ask(http, leader, "PUT", f"{ROOT}/topics/other", body)
    assert (few.status, few.json()["error"]) == (400, "InvalidReplicas")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [case for case in ALL if case[0] != "GET" and case[1] not in {f"{ROOT}/plan", SHUTDOWN}],
)
async def test_a_dry_run_answers_alike_and_writes_nothing(
    http: HttpClient, leader: Broker, method: str, path: str, body: Any
) -> None:
    admin, path = leader.partition_admin, path.partition("?")[0]
    if (method, path) != ("PUT", TOPIC):
        await create(http, leader)
    if method != "PUT" and path.startswith(MOVES):
        moves = {"partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 4]}]}
        assert (await ask(http, leader, "PUT", MOVES, moves)).status == 200
    before = list(admin.written)
    dry = await ask(http, leader, method, f"{path}?dry_run=true", body)
    assert (dry.status, admin.written) == (200, before)
    done = await ask(http, leader, method, path, body)
    assert (done.status, done.json()) == (200, dry.json())
    assert len(admin.written) == len(before) + 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TopicExists("there is one"), 409),
        (InvalidReplicas("0 names 9"), 400),
        (NoController("not any more"), 503),
    ],
)
async def test_a_refused_request_is_answered_with_its_error(
    http: HttpClient, leader: Broker, error: BrokerCtlError, status: int
) -> None:
    leader.partition_admin.refuse = error
    reply = await ask(http, leader, "PUT", TOPIC, LISTS)
    assert reply.status == status
    assert reply.json() == {"error": type(error).__name__, "reason": str(error)}


# Moves and leaders.


async def test_a_plan_can_be_sent_back_as_it_is(http: HttpClient, leader: Broker) -> None:
    await create(http, leader)
    body = {"topics": ["orders"], "brokers": [3, 4]}
    plan = (await ask(http, leader, "POST", f"{ROOT}/plan", body)).json()
    assert [row["replicas"] for row in plan["partitions"]] == [[3, 4], [4, 3]]
    begun = await ask(http, leader, "PUT", MOVES, plan)
    assert begun.json()["partitions"][1] == {
        "topic": "orders",
        "partition": 1,
        "replicas": [4, 3],
        "before": [2, 3],
    }
    moving = (await ask(http, leader, "GET", MOVES)).json()
    assert [(row["partition"], row["missing"]) for row in moving] == [(0, [3, 4]), (1, [4])]
    one = {"partitions": [{"topic": "orders", "partition": 1}]}
    assert (await ask(http, leader, "DELETE", MOVES, one)).status == 200
    assert leader.partition_admin.written[-1] == ("cancel", [TopicPartition("orders", 1)])
    again = await ask(http, leader, "DELETE", MOVES, one)
    assert (again.status, again.json()["error"]) == (404, "ReassignmentMissing")


async def test_reassignments_are_throttled(http: HttpClient, leader: Broker) -> None:
    await create(http, leader)
    row = {"topic": "orders", "partition": 0, "replicas": [3, 4]}
    throttle = f"{MOVES}/throttle"
    early = await ask(http, leader, "POST", throttle, {RATE: 5})
    assert (early.status, early.json()["error"]) == (404, "ReassignmentMissing")
    for wrong in (0, -1, 1.5, True, "5", 1 << 63):
        for method, path in (("PUT", MOVES), ("POST", throttle)):
            refused = await ask(http, leader, method, path, {"partitions": [row], RATE: wrong})
            assert (refused.status, RATE in refused.json()["reason"]) == (400, True), wrong
    assert (await ask(http, leader, "POST", throttle, {})).status == 400
    assert (await ask(http, leader, "PUT", MOVES, {"partitions": [row], RATE: 7})).status == 200
    assert leader.partition_admin.throttle == 7
    dry = await ask(http, leader, "POST", f"{throttle}?dry_run=true", {RATE: 8})
    assert dry.json() == {"before": {RATE: 7}, "after": {RATE: 8}, "reassigning": 1}
    assert leader.partition_admin.throttle == 7
    assert (await ask(http, leader, "POST", throttle, {RATE: None})).status == 200
    assert leader.partition_admin.throttle is None


async def test_a_plan_over_more_partitions_than_the_limit_is_refused(
    http: HttpClient, leader: Broker
) -> None:
    admin = leader.partition_admin
    for topic in ("orders", "users"):
        await admin.create_topic(topic, admin.spread(5_001, 1), TopicRules(), is_dry_run=False)
    body = {"topics": ["orders", "users"], "brokers": [1]}
    large = await ask(http, leader, "POST", f"{ROOT}/plan", body)
    assert (large.status, large.json()["error"]) == (400, "InvalidReplicas")
    assert "10002 partitions: a plan has at most 10000" in large.json()["reason"]
    one = await ask(http, leader, "POST", f"{ROOT}/plan", {**body, "topics": ["orders", "orders"]})
    assert one.status == 200


async def test_leaders_are_elected(http: HttpClient, leader: Broker) -> None:
    await create(http, leader)
    leader.partition_admin.held["orders"].leaders[1] = 3
    body: dict[str, Any] = {"kind": "preferred"}
    (row,) = (await ask(http, leader, "POST", f"{ROOT}/elections", body)).json()["partitions"]
    assert (row["partition"], row["before"], row["leader"]) == (1, 3, 2)
    body = {"kind": "unclean"}
    unnamed = await ask(http, leader, "POST", f"{ROOT}/elections", body)
    assert (unnamed.status, unnamed.json()["error"]) == (400, "InvalidReplicas")
    body["partitions"] = [{"topic": "orders", "partition": 0}]
    assert (await ask(http, leader, "POST", f"{ROOT}/elections", body)).status == 200
    chosen = [TopicPartition("orders", 0)]
    assert leader.partition_admin.written[-1] == ("elect", "unclean", chosen)


async def test_a_broker_that_stops_says_in_which_life(http: HttpClient, leader: Broker) -> None:
    body = {"broker": 2, "broker_epoch": EPOCH_OF_BROKER + 2, "force": True}
    done = await ask(http, leader, "POST", SHUTDOWN, body)
    assert (done.status, done.json()["is_done"]) == (200, True)
    assert leader.partition_admin.written == [("shut down", 2, True)]
    late = await ask(http, leader, "POST", SHUTDOWN, {**body, "broker_epoch": 1})
    assert (late.status, late.json()["error"]) == (409, "Fenced")


async def test_the_controller_shows_its_brokers(http: HttpClient, leader: Broker) -> None:
    shown = (await ask(http, leader, "GET", f"{ROOT}/controller")).json()
    assert (shown["broker"], shown["epoch"], len(shown["brokers"])) == (1, 5, 4)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("", (None, None, 50)),
        ("?topic=orders", ("orders", None, 50)),
        ("?topic=orders&partition=3&limit=7", ("orders", 3, 7)),
    ],
)
async def test_changes_of_leaders_are_listed_by_topic_and_partition(
    http: HttpClient, leader: Broker, query: str, asked: tuple[Any, ...]
) -> None:
    rows = (await ask(http, leader, "GET", f"{ROOT}/transitions{query}")).json()
    assert [row["leader"] for row in rows] == [2, -1]
    assert leader.partition_admin.asked == asked


async def test_the_leader_of_a_partition_is_explained(http: HttpClient, leader: Broker) -> None:
    path = f"{ROOT}/explain?topic=orders&partition=1"
    assert (await ask(http, leader, "GET", path)).status == 404
    await create(http, leader)
    found = (await ask(http, leader, "GET", path)).json()
    assert (found["topic"], found["partition"], found["leader"]) == ("orders", 1, 2)
    assert found["reasons"] == ["broker 2 leads: it is the preferred replica"]


# What makes no sense.


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("PUT", TOPIC, {}), "replicas or a number"),
        (("PUT", TOPIC, {**LISTS, "partitions": 2}), "replicas or a number"),
        (("PUT", TOPIC, {"replicas": [[1]]}), "replicas is an object"),
        (("PUT", TOPIC, {"replicas": {"07": [1]}}), "'07' is not a partition number"),
        (("PUT", TOPIC, {"replicas": {"-1": [1]}}), "'-1' is not a partition number"),
        (("PUT", TOPIC, {"replicas": {"9" * 5000: [1]}}), "is not a partition number"),
        (("PUT", TOPIC, {"replicas": {"0": []}}), "1 to 100 broker ids"),
        (("PUT", TOPIC, {"replicas": {"0": [1] * 101}}), "1 to 100 broker ids"),
        (("PUT", TOPIC, {"replicas": {"0": [True]}}), "broker id is a number"),
        (("PUT", TOPIC, {"replicas": {"0": [-1]}}), "broker id is a number"),
        (("PUT", TOPIC, {"partitions": 10_001, "replication_factor": 1}), "from 1 to 10000"),
        (("PUT", TOPIC, {"partitions": 0, "replication_factor": 1}), "from 1 to 10000"),
        (("PUT", TOPIC, {"partitions": 1.5, "replication_factor": 1}), "from 1 to 10000"),
        (("PUT", TOPIC, {**LISTS, "unclean": "no"}), "unclean is true or false"),
        (("PUT", TOPIC, {**LISTS, "min_isr": -1}), "min_isr is a number"),
        (("PUT", f"{TOPIC}?dry_run=maybe", LISTS), "dry_run is true or false"),
        (("POST", f"{TOPIC}/rules", {}), "min_isr or unclean is required"),
        (("POST", f"{TOPIC}/rules", {"min_isr": 0}), "min_isr is a number from 1"),
        (("POST", f"{TOPIC}/rules", {"min_isr": "2"}), "min_isr is a number"),
        (("POST", f"{TOPIC}/rules", {"unclean": "false"}), "unclean is true or false"),
        (("PUT", ADOPTED, {"topic_id": 5}), "topic_id is a text"),
        (("POST", f"{ROOT}/plan", {"brokers": [1]}), "topics is a list"),
        (("POST", f"{ROOT}/plan", {"topics": [5], "brokers": [1]}), "name of a replicated topic"),
        (("POST", f"{ROOT}/plan", {"topics": ["orders"]}), "broker ids"),
        (("GET", f"{ROOT}/transitions?partition=1", None), "needs a topic"),
        (("GET", f"{ROOT}/transitions?topic=a&partition=x", None), "'x' is not a partition number"),
        (("GET", f"{ROOT}/transitions?limit=0", None), "limit"),
        (("GET", f"{ROOT}/explain?topic=orders", None), "topic and partition are required"),
        (("PUT", MOVES, {}), "partitions to move are required"),
        (("PUT", MOVES, {"partitions": [5]}), "partitions is a list"),
        (
            ("PUT", MOVES, {"partitions": [{"topic": "a", "replicas": [1]}]}),
            "partition is a number",
        ),
        (("PUT", MOVES, {"partitions": [{"topic": "a", "partition": 0}]}), "broker ids"),
        (("DELETE", MOVES, {"partitions": [{"topic": "a", "partition": 0}] * 2}), "named twice"),
        (("DELETE", MOVES, {"partitions": [{"topic": "a", "partition": 0}] * 10_001}), "at most"),
        (("POST", f"{ROOT}/elections", {"kind": "whim"}), "preferred, unclean"),
        (("POST", SHUTDOWN, {"broker": 2}), "broker_epoch are required"),
        (("POST", SHUTDOWN, {"broker": "2", "broker_epoch": 1}), "broker is a number"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, asked: tuple[str, str, Any], said: str
) -> None:
    reply = await ask(http, leader, *asked)
    assert (reply.status, said in reply.json()["reason"]) == (400, True), reply.json()
    assert leader.partition_admin.written == []


@pytest.mark.parametrize("name", ["a%2Fb", "%20", "x" * 250, "s%C3%BC%C3%9F"])
async def test_a_name_that_no_topic_may_have_is_refused(
    http: HttpClient, leader: Broker, name: str
) -> None:
    for method in ("GET", "PUT", "POST", "DELETE"):
        reply = await ask(http, leader, method, f"{ROOT}/topics/{name}", LISTS)
        assert (reply.status, reply.json()["error"]) == (412, "InvalidName")


async def test_one_request_makes_no_more_than_ten_thousand_partitions(
    http: HttpClient, leader: Broker
) -> None:
    await create(http, leader)
    reply = await ask(http, leader, "POST", TOPIC, {"partitions": 10_003})
    assert (reply.status, reply.json()["error"]) == (400, "InvalidReplicas")
    assert "orders has 2 partitions" in reply.json()["reason"]
    assert (await ask(http, leader, "POST", TOPIC, {"partitions": 10_002})).status == 200


# Who answers.


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: f"{asked[0]} {asked[1]}")
async def test_all_requests_are_redirected_to_the_controller(
    http: HttpClient, leader: Broker, follower: Broker, asked: tuple[str, str, Any]
) -> None:
    # Leading the bundles is another election.
    leader.world.controller_id = follower.broker_id
    reply = await ask(http, leader, *asked)
    assert (reply.status, reply.headers["Location"]) == (307, follower.url + asked[1])
    leader.world.controller_id = None
    nobody = await ask(http, leader, *asked)
    assert (nobody.status, nobody.json()["error"]) == (503, "NoController")


async def test_a_controller_that_is_only_just_beginning_is_none(
    http: HttpClient, leader: Broker
) -> None:
    partitions = leader.dependencies.partitions
    assert partitions is not None
    beginning = replace(leader.dependencies, partitions=replace(partitions, admin=lambda: None))
    api = ApiServer(beginning, ApiRules(CLUSTER, port=free_port()))
    await api.start()
    reply = await http.request("GET", f"http://127.0.0.1:{api.port}{ROOT}/topics")
    assert (reply.status, reply.json()["error"]) == (503, "NoController")
    await api.stop(1.0)


async def test_a_broker_without_a_number_says_why_it_knows_nothing(
    http: HttpClient, leader: Broker
) -> None:
    api = ApiServer(replace(leader.dependencies, partitions=None), ApiRules(CLUSTER, port=0))
    await api.start()
    url = f"http://127.0.0.1:{api.port}"
    for method, path, body in ALL:
        reply = await http.request(method, url + path, json=body)
        assert (reply.status, reply.json()["error"]) == (404, "NotReplicated")
        assert "brokerId is not set" in reply.json()["reason"]
    await api.stop(1.0)


async def test_operators_and_clients_show_a_token(http: HttpClient) -> None:
    rules = ApiRules(CLUSTER, **admitting(f"operator:{TOKEN}", ["operator"]))
    async with (
        serving_brokers([free_port()], rules) as [one],
        HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as operator,
    ):
        for asked in ALL:
            assert (await ask(http, one, *asked)).status == 401
            assert (await ask(operator, one, *asked)).status not in {401, 403}
        leader = f"{one.url}/partitions/v1/leader/orders/0"
        assert (await http.request("GET", leader)).status == 401
        found = await operator.request("GET", leader)
        assert (found.status, found.json()["error"]) == (404, "TopicMissing")


async def test_only_a_super_user_gives_up_acknowledged_records() -> None:
    """As for the deletion of a topic; an operator elects the preferred leaders."""
    operator = "0perator-0123456789abcdef"
    text = f"admin:{TOKEN}\noperator:{operator}"
    rules = ApiRules(CLUSTER, **admitting(text, ["admin"], operators=["operator"]))
    chosen = [{"topic": "orders", "partition": 0}]
    async with serving_brokers([free_port()], rules) as [broker]:
        found = {}
        for role, token in (("admin", TOKEN), ("operator", operator)):
            async with HttpClient(
                token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20
            ) as http:
                if role == "admin":
                    await create(http, broker)
                for kind in ("preferred", "unclean"):
                    body = {"kind": kind, "partitions": chosen}
                    reply = await ask(http, broker, "POST", f"{ROOT}/elections", body)
                    found[role, kind] = reply.status
        assert broker.partition_admin.written[-1][:2] == ("elect", "preferred")
    assert found == {
        ("admin", "preferred"): 200,
        ("admin", "unclean"): 200,
        ("operator", "preferred"): 200,
        ("operator", "unclean"): 403,
    }
