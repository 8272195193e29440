"""Registered brokers over HTTP."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import pytest

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import DataPlaneRefused
from broker_ctl.http_client import HttpClient
from broker_ctl.store.records.simple import LoadReport
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, RING, TOPICS, Broker
from tests.support.time.waiting import eventually

BROKERS = "/admin/v2/brokers"
STATISTICS = "/admin/v2/broker-stats"


async def test_live_brokers_are_listed(http: HttpClient, leader: Broker) -> None:
    expected = sorted(leader.world.brokers)
    assert (await http.request("GET", leader.url + BROKERS)).json() == expected
    own = await http.request("GET", f"{leader.url}{BROKERS}/{CLUSTER}")
    assert own.json() == expected
    assert (await http.request("GET", f"{leader.url}{BROKERS}/elsewhere")).status == 404


async def test_the_leader_is_named_while_there_is_one(http: HttpClient, follower: Broker) -> None:
    url = f"{follower.url}{BROKERS}/leaderBroker"
    leader_id = follower.world.leader_id
    expected = {"serviceUrl": f"http://{leader_id}", "brokerId": leader_id}
    assert (await http.request("GET", url)).json() == expected
    follower.world.leader_id = None
    assert (await http.request("GET", url)).status == 404


async def test_a_broker_lists_its_bundles_and_sends_on_for_others(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    path = f"{BROKERS}/{CLUSTER}/{leader.broker_id}/ownedNamespaces"
    row = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    own = await http.request("GET", leader.url + path)
    assert own.json() == {str(BUNDLES[0]): row}
    sent_on = await http.request("GET", follower.url + path)
    assert (sent_on.status, sent_on.headers["Location"]) == (307, leader.url + path)
    gone = f"{leader.url}{BROKERS}/{CLUSTER}/gone:1/ownedNamespaces"
    assert (await http.request("GET", gone)).status == 404


async def test_health_is_readiness(http: HttpClient, leader: Broker) -> None:
    for path in ("/readyz", f"{BROKERS}/health", f"{BROKERS}/ready"):
        reply = await http.request("GET", leader.url + path)
        assert (reply.status, reply.body) == (200, b"ok")
    leader.readiness = Readiness(is_ready=False, reason="the session is suspended")
    for path in ("/readyz", f"{BROKERS}/health"):
        reply = await http.request("GET", leader.url + path)
        assert reply.status == 503
        assert reply.json() == {"ready": False, "reason": "the session is suspended"}
    assert (await http.request("GET", f"{leader.url}/livez")).body == b"ok"


async def test_the_load_report_is_the_reporters(http: HttpClient, leader: Broker) -> None:
    reply = await http.request("GET", f"{leader.url}/admin/v2/broker-stats/load-report")
    report = leader.dependencies.services.reporter.current().encode()
    assert reply.body == report
    assert (reply.json()["loadReportType"], reply.json()["brokerId"]) == (
        "LocalBrokerData",
        leader.broker_id,
    )


async def test_a_simple_manager_shows_its_own_kind_of_report(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = leader.dependencies.services.reporter.current().load
    simple = LoadReport(leader.urls, load)
    monkeypatch.setattr(leader.dependencies.services.reporter, "report", simple)
    report = (await http.request("GET", f"{leader.url}{STATISTICS}/load-report")).json()
    assert (report["loadReportType"], report["name"]) == ("LoadReport", leader.broker_id)
    assert report["underLoaded"] is False


# Topics.


def names_in(found: Mapping[str, Any]) -> list[str]:
    return [
        name
        for bundles in found.values()
        for domains in bundles.values()
        for lines in domains.values()
        for name in lines
    ]


async def test_topics_are_returned_in_pulsars_nesting(http: HttpClient, leader: Broker) -> None:
    for bundle in BUNDLES:
        await leader.serve(bundle)
    leader.dataplane.grant(1, math.inf)
    reply = await http.request("GET", f"{leader.url}{STATISTICS}/topics")
    found = reply.json()
    topic, line = TOPICS[0], {"producerCount": 1, "consumerCount": 2, "averageMsgSize": 100.0}
    line |= {"msgRateIn": 10.0, "msgRateOut": 20.0}
    line |= {"msgThroughputIn": 1000.0, "msgThroughputOut": 2000.0}
    span = str(RING.bundle_of(topic).range)
    assert found["t/ns"][span]["persistent"][str(topic)] == line
    assert sorted(names_in(found)) == [str(topic) for topic in TOPICS]
    assert "X-Broker-Ctl-Cut-At" not in reply.headers


async def test_only_own_bundles_that_are_served_are_returned(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    await leader.serve(BUNDLES[0])
    await follower.serve(BUNDLES[1])
    found = (await http.request("GET", f"{leader.url}{STATISTICS}/topics")).json()
    assert list(found["t/ns"]) == [str(BUNDLES[0].range)]
    other = await http.request("GET", f"{leader.url}{STATISTICS}/topics?namespace=t/other")
    assert (other.status, other.json()) == (200, {})


@pytest.mark.parametrize("limit", range(1, 9))
async def test_a_list_that_is_cut_at_its_limit_names_where_it_was_cut(
    http: HttpClient, leader: Broker, limit: int
) -> None:
    for bundle in BUNDLES:
        await leader.serve(bundle)
    url = f"{leader.url}{STATISTICS}/topics"
    whole = names_in((await http.request("GET", url)).json())
    reply = await http.request("GET", f"{url}?limit={limit}")
    assert names_in(reply.json()) == whole[:limit]
    cut = reply.headers.get("X-Broker-Ctl-Cut-At")
    assert cut == (str(limit) if limit < len(TOPICS) else None)


@pytest.mark.parametrize("query", ["limit=0", "limit=100001", "limit=ten", "limit=%D9%A3"])
async def test_a_limit_that_is_none_is_refused(
    http: HttpClient, leader: Broker, query: str
) -> None:
    reply = await http.request("GET", f"{leader.url}{STATISTICS}/topics?{query}")
    assert reply.status == 400
    assert "from 1 to 100000" in reply.json()["reason"]


async def test_a_bundle_that_goes_meanwhile_is_left_out(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bundle in BUNDLES[:2]:
        await leader.serve(bundle)
    answer = leader.dataplane.topic_statistics

    async def gone(bundle: Bundle) -> Mapping[str, BundleStats]:
        if bundle == BUNDLES[0]:
            del leader.world.owners[bundle]
            raise DataPlaneRefused(f"{bundle} is not loaded")
        return await answer(bundle)

    monkeypatch.setattr(leader.dataplane, "topic_statistics", gone)
    found = (await http.request("GET", f"{leader.url}{STATISTICS}/topics")).json()
    assert list(found["t/ns"]) == [str(BUNDLES[1].range)]


async def test_a_broker_process_that_cannot_answer_is_not_an_empty_list(
    http: HttpClient, leader: Broker
) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    reply = await http.request("GET", f"{leader.url}{STATISTICS}/topics")
    assert (reply.status, reply.json()["error"]) == (500, "DataPlaneRefused")


async def test_few_may_request_topics_at_a_time(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leader.serve(BUNDLES[0])
    gate, asked = asyncio.Event(), []

    async def wait(bundle: Bundle) -> Mapping[str, BundleStats]:
        asked.append(bundle)
        await gate.wait()
        return {}

    monkeypatch.setattr(leader.dataplane, "topic_statistics", wait)
    url = f"{leader.url}{STATISTICS}/topics"
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(http.request("GET", url), name=f"ask {n}") for n in range(2)]
        await eventually(lambda: len(asked) == 2)
        assert (await http.request("GET", url)).status == 503
        gate.set()
    assert [task.result().status for task in first] == [200, 200]
