"""Pause, drains, plans and history over HTTP."""

from collections.abc import AsyncIterator

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.balancer.admin.operations import HistoryFilter
from broker_ctl.core.cluster.directives import AuditInfo, DrainTerms, Pause
from broker_ctl.errors import OrderConflict, PlanMissing
from broker_ctl.http_client import HttpClient
from broker_ctl.store import paths
from broker_ctl.store.records.directives import PauseRecord
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S, eventually

SAID = {"by": "anna", "reason": "kernel update"}
PLAN = "0123456789ab"


def url_of(broker: Broker, path: str) -> str:
    return f"{broker.url}/control/v1/{path}"


# Pause.


async def test_any_broker_reads_and_sets_the_pause_without_a_leader(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.leader_id = None
    url = url_of(follower, "pause")
    assert (await http.request("GET", url)).json() == {"paused": False}
    first = (await http.request("PUT", url, json=SAID)).json()
    given = {"paused": True, "since_ms": 0, **SAID, "automatic": False}
    assert {**first, "since_ms": 0} == given
    again = await http.request("PUT", url_of(leader, "pause"), json={"by": "bert"})
    assert again.json() == first
    assert (await http.request("GET", url_of(leader, "pause"))).json() == first
    ended = (await http.request("DELETE", url_of(leader, "pause"))).json()
    assert ended == first | {"paused": False, "was_paused": True}
    nothing = (await http.request("DELETE", url)).json()
    assert nothing == {"paused": False, "was_paused": False}


async def test_the_pause_of_a_rollout_is_not_ended_under_it(
    http: HttpClient, leader: Broker
) -> None:
    pause = Pause(AuditInfo.of(0, "anna", "an upgrade"), rollout_id="r-1")
    await leader.metadata.store.create(paths.PAUSE, PauseRecord(pause).encode(), make_parents=True)
    await eventually(lambda: leader.directives.pause is not None, what="a pause")
    for query in ("", "?dry_run=true"):
        reply = await http.request("DELETE", url_of(leader, "pause") + query)
        assert (reply.status, reply.json()["error"]) == (409, "OrderConflict")
        assert "rollout r-1 pauses the balancing until it ends" in reply.json()["reason"]
    assert await leader.metadata.store.exists(paths.PAUSE) is not None


@pytest.mark.parametrize(
    "body", [{"by": 5}, {"by": "x" * 129}, {"reason": "y" * 513}, {"reason": "two\nlines"}]
)
async def test_a_name_or_reason_that_is_not_short_printable_text_is_refused(
    http: HttpClient, leader: Broker, body: dict[str, object]
) -> None:
    reply = await http.request("PUT", url_of(leader, "pause"), json=body)
    assert reply.status == 400
    assert "printable characters" in reply.json()["reason"]
    assert leader.directives.pause is None


# Drains.


async def test_a_broker_is_drained_and_undrained(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    url = url_of(leader, f"drains/{follower.broker_id}")
    begun = await http.request("PUT", f"{url}?force=true", json=SAID)
    assert (begun.status, begun.json()["state"]) == (200, "draining")
    assert leader.admin.operations.asked == [
        ("drain", follower.broker_id, "anna", "kernel update", DrainTerms(is_forced=True))
    ]
    (row,) = (await http.request("GET", url_of(leader, "drains"))).json()
    assert (row["broker"], row["bundles_left"], row["eta_s"]) == (follower.broker_id, 3, 6.0)
    assert (await http.request("DELETE", url)).json()["was_drained"] is True
    assert (await http.request("DELETE", url)).json()["was_drained"] is False


async def test_when_a_drain_begins_and_ends_is_in_the_body(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    url = url_of(leader, f"drains/{follower.broker_id}")
    times = {"begins_ms": 5_000, "ends_ms": 9_000, "until_restart": True}
    assert (await http.request("PUT", url, json=SAID | times)).status == 200
    terms = DrainTerms(5_000, 9_000, until_restart=True)
    assert leader.admin.operations.asked[-1][-1] == terms


@pytest.mark.parametrize(
    "body",
    [
        {"begins_ms": "tomorrow"},
        {"begins_ms": -1},
        {"ends_ms": 1.5},
        {"ends_ms": True},
        {"ends_ms": 10**18},
        {"until_restart": 1},
    ],
)
async def test_a_time_that_is_not_one_drains_nothing(
    http: HttpClient, leader: Broker, follower: Broker, body: dict[str, object]
) -> None:
    url = url_of(leader, f"drains/{follower.broker_id}")
    reply = await http.request("PUT", url, json=body)
    assert reply.status == 400
    assert next(iter(body)) in reply.json()["reason"]
    assert leader.admin.operations.asked == []


async def test_only_a_broker_can_be_drained_and_not_the_last_one(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    for method in ("PUT", "DELETE"):
        unknown = await http.request(method, url_of(leader, "drains/nobody:1"))
        assert (unknown.status, unknown.json()["error"]) == (404, "NoBroker")
    leader.admin.operations.refuse = OrderConflict("nobody could receive")
    last = await http.request("PUT", url_of(leader, f"drains/{follower.broker_id}"))
    assert (last.status, last.json()["error"]) == (409, "OrderConflict")


async def test_a_drained_broker_that_is_gone_is_still_undrained(
    http: HttpClient, leader: Broker
) -> None:
    leader.admin.operations.drained["gone:1"] = {"broker": "gone:1", "state": "absent"}
    url = url_of(leader, "drains/gone:1")
    assert (await http.request("PUT", url)).status == 200
    assert (await http.request("DELETE", url)).json()["was_drained"] is True


# Plans.


async def test_a_plan_is_proposed_approved_followed_and_stopped(
    http: HttpClient, leader: Broker
) -> None:
    plan = (await http.request("GET", url_of(leader, "plan"))).json()
    assert (plan["id"], "skipped" in plan) == (PLAN, False)
    verbose = (await http.request("GET", url_of(leader, "plan?verbose=true"))).json()
    assert len(verbose["skipped"]) == 1
    url = url_of(leader, f"plans/{PLAN}")
    row = (await http.request("PUT", url, json=SAID)).json()
    assert (row["state"], row["by"]) == ("approved", "anna")
    assert (await http.request("GET", url_of(leader, "plans"))).json() == [row]
    assert (await http.request("DELETE", url, json=SAID)).json()["state"] == "stopped"
    assert leader.admin.operations.asked == [
        ("plan", False),
        ("plan", True),
        ("approve", PLAN, "anna", "kernel update"),
        ("stop", PLAN, "anna", "kernel update"),
    ]


@pytest.mark.parametrize(
    ("error", "status"), [(PlanMissing("ask again"), 404), (OrderConflict("another"), 409)]
)
async def test_a_plan_that_cannot_be_approved_is_answered_with_its_error(
    http: HttpClient, leader: Broker, error: PlanMissing | OrderConflict, status: int
) -> None:
    leader.admin.operations.refuse = error
    for method in ("PUT", "DELETE"):
        reply = await http.request(method, url_of(leader, f"plans/{PLAN}"))
        assert reply.status == status
        assert reply.json() == {"error": type(error).__name__, "reason": str(error)}


# History.


async def test_history_is_filtered_by_its_subject(http: HttpClient, leader: Broker) -> None:
    (row,) = (await http.request("GET", url_of(leader, "history"))).json()
    assert (row["kind"], row["result"]) == ("skip", "skipped")
    bundle = str(BUNDLES[0])
    query = f"kind=transfer&broker=b:1&bundle={bundle}&since_ms=90500&until_ms=99000&limit=7"
    await http.request("GET", url_of(leader, f"history?{query}"))
    assert leader.admin.operations.asked == [
        ("history", HistoryFilter()),
        ("history", HistoryFilter("transfer", "b:1", bundle, 90_500, 99_000, 7)),
    ]


@pytest.mark.parametrize(
    "query",
    ["kind=whim", "limit=0", "limit=1001", "limit=many", "limit=" + "9" * 5000]
    + [f"since_ms={text}" for text in ("0", "-1", "nan", "inf", "soon", "9" * 16)]
    + ["until_ms=now"],
)
async def test_a_question_that_makes_no_sense_is_refused(
    http: HttpClient, leader: Broker, query: str
) -> None:
    reply = await http.request("GET", url_of(leader, f"history?{query}"))
    assert reply.status == 400
    assert query.partition("=")[0] in reply.json()["reason"]
    assert leader.admin.operations.asked == []


# Who answers.


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "drains"),
        ("PUT", "drains/b:1?force=true"),
        ("DELETE", "drains/b:1"),
        ("GET", "plan?verbose=true"),
        ("GET", "plans"),
        ("PUT", f"plans/{PLAN}"),
        ("DELETE", f"plans/{PLAN}"),
        ("GET", "history?limit=5"),
    ],
)
async def test_all_requests_but_the_pause_are_redirected_to_the_leader(
    http: HttpClient, leader: Broker, follower: Broker, method: str, path: str
) -> None:
    reply = await http.request(method, url_of(follower, path))
    assert (reply.status, reply.headers["Location"]) == (307, url_of(leader, path))
    leader.world.leader_id = None
    nobody = await http.request(method, url_of(follower, path))
    assert (nobody.status, nobody.json()["error"]) == (503, "NoLeader")


@pytest.fixture
async def guarded() -> AsyncIterator[Broker]:
    admission = admitting(f"operator:{TOKEN}", ["operator"])
    rules = ApiRules(CLUSTER, **admission)
    async with serving_brokers([free_port()], rules) as [one]:
        yield one


async def test_a_token_says_who_it_was_whatever_the_body_says(guarded: Broker) -> None:
    async with HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
        reply = await http.request("PUT", url_of(guarded, "pause"), json=SAID)
    assert reply.json()["by"] == "operator"
