"""Dynamic configuration over HTTP."""

from urllib.parse import quote

import pytest

from broker_ctl.broker.policies.dynamic_config import DYNAMIC_KEYS
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import BUNDLES, NAMESPACE, Broker
from tests.support.time.waiting import eventually

CONFIGURATION = "/admin/v2/brokers/configuration"
INTERVAL = "loadBalancerSheddingIntervalMinutes"
EXCLUDED = "loadBalancerSheddingExcludedNamespaces"


async def test_an_override_is_set_read_and_deleted(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    url = leader.url + CONFIGURATION
    assert (await http.request("GET", url)).json() == sorted(DYNAMIC_KEYS)
    assert (await http.request("GET", f"{url}/values")).json() == {}
    assert (await http.request("GET", f"{url}/runtime")).json()[INTERVAL] == "1"
    assert (await http.request("POST", f"{url}/{INTERVAL}/0.5")).status == 204
    values = await http.request("GET", f"{follower.url}{CONFIGURATION}/values")
    assert values.json() == {INTERVAL: "0.5"}

    async def effective() -> str:
        text: str = (await http.request("GET", f"{url}/runtime")).json()[INTERVAL]
        return text

    async def is_taken() -> bool:
        return await effective() == "0.5"

    async def is_back() -> bool:
        return await effective() == "1"

    await eventually(is_taken)
    for _ in range(2):
        assert (await http.request("DELETE", f"{url}/{INTERVAL}")).status == 204
    await eventually(is_back)
    assert (await http.request("GET", f"{url}/values")).json() == {}


async def test_a_value_may_hold_what_a_path_may_not(http: HttpClient, leader: Broker) -> None:
    url = leader.url + CONFIGURATION
    value = quote("a/b,c/d", safe="")
    assert (await http.request("POST", f"{url}/{EXCLUDED}/{value}")).status == 204
    assert (await http.request("GET", f"{url}/values")).json() == {EXCLUDED: "a/b,c/d"}


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "frobnicate/1", "not a setting of broker-ctl"),
        ("POST", "webServicePort/8081", "not dynamic"),
        ("POST", "dryRun/perhaps", "true or false"),
        ("POST", "tlsEnabled/true", "not a setting of broker-ctl"),
        ("POST", f"{INTERVAL}/0", "at least 0.001"),
        ("POST", f"{INTERVAL}/{'1' * 5000}", "characters"),
        ("DELETE", "webServicePort", "not a dynamic setting"),
        ("DELETE", "frobnicate", "not a dynamic setting"),
    ],
)
async def test_an_invalid_override_is_refused_with_its_reason(
    http: HttpClient, leader: Broker, method: str, path: str, reason: str
) -> None:
    reply = await http.request(method, f"{leader.url}{CONFIGURATION}/{path}")
    assert (reply.status, reply.json()["error"]) == (412, "SettingsError")
    assert reason in reply.json()["reason"]
    assert (await http.request("GET", f"{leader.url}{CONFIGURATION}/values")).json() == {}


async def test_the_surface_takes_its_own_settings_without_a_restart(
    http: HttpClient, leader: Broker
) -> None:
    url = leader.url + CONFIGURATION
    namespaces = f"{leader.url}/admin/v2/namespaces"
    algorithm = "topic_count_equally_divide"
    for key, value in (
        ("defaultNumberOfNamespaceBundles", "2"),
        ("defaultNamespaceBundleSplitAlgorithm", algorithm),
    ):
        assert (await http.request("POST", f"{url}/{key}/{value}")).status == 204
    await eventually(
        lambda: leader.metadata.configuration.current().splitting.default_algorithm == algorithm
    )
    assert (await http.request("PUT", f"{namespaces}/t/new")).status == 204
    ring = (await http.request("GET", f"{namespaces}/t/new/bundles")).json()
    assert ring["numBundles"] == 2
    # By the number of topics there is nothing to split; in the middle there would be.
    leader.world.assign(BUNDLES[0], leader.broker_id)
    assert (await http.request("PUT", f"{namespaces}/t/ns/{BUNDLES[0].range}/split")).status == 204
    assert leader.world.rings[NAMESPACE].bundles == BUNDLES


async def test_lookups_are_limited_without_a_restart(http: HttpClient, leader: Broker) -> None:
    url = leader.url + CONFIGURATION
    in_gate: list[int] = []

    async def ask_within() -> None:
        # While one lookup is in progress, another one.
        leader.lookup.gate = None
        reply = await http.request("GET", f"{leader.url}/lookup/v2/topic/persistent/t/ns/y")
        in_gate.append(reply.status)

    assert (await http.request("POST", f"{url}/maxConcurrentLookupRequest/1")).status == 204
    await eventually(
        lambda: leader.metadata.configuration.current().api.max_concurrent_lookups == 1
    )
    leader.lookup.gate = ask_within
    reply = await http.request("GET", f"{leader.url}/lookup/v2/topic/persistent/t/ns/x")
    assert (reply.status, in_gate) == (200, [503])
