"""Who is there, over HTTP."""

from broker_ctl.http import HttpClient
from broker_ctl.surface.parts import Readiness
from tests.support.surface_parts import BUNDLES, CLUSTER, Broker

BROKERS = "/admin/v2/brokers"


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


async def test_a_broker_tells_its_bundles_and_sends_on_for_others(
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
    assert reply.json() == {"loadReportType": "LocalBrokerData", "brokerId": leader.broker_id}
