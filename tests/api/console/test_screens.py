"""Screens with what only some clusters have: rollouts, policies, replicated partitions, topics."""

from typing import Final
from urllib.parse import quote, urlencode

import aiohttp

from broker_ctl.balancer.admin.rollout import RolloutRequest
from broker_ctl.core.partitions.values import TopicRules
from broker_ctl.core.rollout.forecast import RolloutScope
from broker_ctl.core.rollout.rollout import RolloutTerms
from broker_ctl.http_client import HttpClient
from tests.api.console.test_acts import Browser
from tests.support.clusters.fake_services import BUNDLES, Broker

TOPIC: Final = "orders"


async def shown(http: HttpClient, broker: Broker, path: str) -> str:
    reply = await http.request("GET", broker.url + path)
    assert reply.status == 200, reply.body
    return " ".join(reply.body.decode().split())


async def test_a_restart_of_all_brokers_is_forecast_before_it_begins(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    for broker in (leader, follower):
        page = await shown(http, broker, "/ui/drains")
        assert "No rollout has begun." in page
        assert "What a restart of every broker would do" in page
        assert "at least 18 for any order" in page
        assert "Abort" not in page


async def test_a_rollout_is_shown_in_steps_and_aborted_with_a_reason(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    rollouts = leader.dependencies.balancer.operations.rollout
    rollouts.has_restarts = True  # type: ignore[attr-defined]
    await rollouts.begin(RolloutRequest(RolloutScope(), RolloutTerms()))
    page = await shown(http, follower, "/ui/drains")
    assert 'aria-current="step">empty' in page
    assert "What a restart of every broker would do" not in page
    fields = {"act": "rollout-abort", "reason": "the release is bad"}
    async with aiohttp.ClientSession() as session:
        opened = Browser(session, follower.url)
        status, preview = await opened.get(f"/ui/act?{urlencode(fields)}")
        assert status == 200, preview
        assert "broker-ctl rollout abort --reason" in preview
        assert "POST /control/v1/rollout/abort" in preview
        assert rollouts.said == []  # type: ignore[attr-defined]
        status, _ = await opened.post("/ui/act", fields)
        assert status == 200
    [said] = rollouts.said  # type: ignore[attr-defined]
    assert said[0] == "abort"
    assert "the release is bad" in said


async def test_a_policy_is_shown_with_the_brokers_that_it_covers_now(
    http: HttpClient, leader: Broker
) -> None:
    assert "Every broker may serve every namespace" in await shown(http, leader, "/ui/policies")
    body = {
        "namespaces": ["shop/.*"],
        "primary": ["127.*"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "5", "usage_threshold": "100"},
        },
    }
    path = "/admin/v2/clusters/c1/namespaceIsolationPolicies/shop"
    assert (await http.request("POST", leader.url + path, json=body)).status == 204
    page = await shown(http, leader, "/ui/policies")
    assert "1 isolation policy" in page
    assert "of at least 5 alive" in page
    assert f'<a href="/ui/brokers/{quote(leader.broker_id)}">{leader.broker_id}</a>' in page
    assert "each live broker is named by a policy" in page


async def test_partitions_are_reassigned_in_three_steps(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    admin = leader.partition_admin
    await admin.create_topic(TOPIC, {0: (1, 2), 1: (2, 3)}, TopicRules(), is_dry_run=False)
    admin.written.clear()
    page = await shown(http, follower, f"/ui/partitions?topic={TOPIC}")
    assert "1. choose brokers, 2. look at the plan, 3. start" in page
    async with aiohttp.ClientSession() as session:
        opened = Browser(session, follower.url)
        query = urlencode([("act", "reassign"), ("topic", TOPIC), ("brokers", 3), ("brokers", 4)])
        status, preview = await opened.get(f"/ui/act?{query}")
        assert status == 200, preview
        assert "This was a dry run" in preview
        assert f"broker-ctl partitions reassign plan {TOPIC} --brokers 3,4" in preview
        assert f"{TOPIC}-0" in preview
        assert admin.written == []
        planned = preview.split('name="partitions" value="')[1].split('"')[0]
        fields = {"act": "reassign", "topic": TOPIC, "brokers": "3,4"}
        given = {**fields, "partitions": planned.replace("&#34;", '"')}
        status, done = await opened.post("/ui/act", given)
        assert status == 200, done
        assert admin.written != []
        admin.written.clear()
        for odd in ("{", "[]", "[1]", "x" * 300_000):
            status, _ = await opened.post("/ui/act", {**fields, "partitions": odd})
            assert status in {400, 409, 412, 413}, odd[:9]
        assert (await opened.get(f"/ui/act?{query}&brokers=x"))[0] == 412
    assert admin.written == []


async def test_a_bundle_shows_the_topics_that_its_owner_has(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    world = leader.world
    for owner in (leader, follower):
        world.assign(BUNDLES[0], owner.broker_id)
        page = await shown(http, leader, f"/ui/bundles?bundle={quote(str(BUNDLES[0]))}")
        assert "Topics inside" in page


async def test_the_session_of_another_broker_is_asked_of_its_daemon(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    page = await shown(http, leader, f"/ui/brokers/{quote(follower.broker_id)}")
    assert "Session</a> and" in page
    assert "holds for" in page


async def test_the_history_shows_the_imbalance_of_the_same_time(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    for broker in (leader, follower):
        page = await shown(http, broker, "/ui/history?span=&kind=skip")
        assert "Imbalance from 2.40 to 1.05, at most 2.40" in page
        assert '<option value="skip"' in page or "<option selected>skip" in page
        reply = await http.request("GET", f"{leader.url}/control/v1/imbalance?points=7")
        assert [point["usage_imbalance"] for point in reply.json()] == [2.4, 1.05]
    assert ("imbalance", 7) in leader.dependencies.balancer.operations.asked  # type: ignore[attr-defined]
