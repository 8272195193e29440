"""Our requests to the admin API of a real cluster, and what its brokers made of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.attach.admin import PulsarAdmin, disable_balancing, restore_balancing
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Bundle, Topic
from broker_ctl.errors import PeerRefused
from broker_ctl.http_client import HttpClient
from tests.support.http.web_server import free_port
from tests.support.pulsar.cluster import PulsarCluster
from tests.support.time.waiting import eventually

pytestmark = pytest.mark.pulsar

SHEDDING = "loadBalancerSheddingEnabled"
SPLIT = "loadBalancerAutoBundleSplitEnabled"


@asynccontextmanager
async def admin_of(cluster: PulsarCluster) -> AsyncIterator[PulsarAdmin]:
    """A client of the admin API whose first address is down."""
    brokers = {broker.id: BrokerUrls(broker.id, broker.url) for broker in cluster.running}
    urls = (f"http://127.0.0.1:{free_port()}", cluster.admin_url)
    async with HttpClient(timeout_s=30, max_body_bytes=1 << 24) as http:
        yield PulsarAdmin(urls, http, lambda: brokers, act_timeout_s=90)


async def owner_of(cluster: PulsarCluster, topic: Topic) -> str:
    """The owner of a topic's bundle by a lookup, which assigns an unowned one."""
    async with HttpClient(timeout_s=30, max_body_bytes=1 << 20) as http:
        reply = await http.request(
            "GET",
            f"{cluster.admin_url}/lookup/v2/topic/{topic.domain}/{topic.namespace}/{topic.local}",
            allow_redirects=True,
        )
    if reply.status != 200:
        return ""  # it is just being closed, or taken
    owner: str = reply.json()["httpUrl"]
    return owner.removeprefix("http://")


async def boundaries(cluster: PulsarCluster, namespace: str) -> list[str]:
    reply = await cluster.admin("GET", f"namespaces/{namespace}/bundles")
    found: list[str] = reply.json()["boundaries"]
    return found


async def test_an_unload_moves_a_bundle_to_the_requested_destination(
    cluster: PulsarCluster,
) -> None:
    topic = Topic.parse("non-persistent://public/default/unloaded-to-a-destination")
    async with admin_of(cluster) as admin:
        bundle = await admin.bundle_of(topic)
        first = await eventually(lambda: owner_of(cluster, topic))
        others = [broker.id for broker in cluster.running if broker.id != first]
        for destination in (*others, first):
            await admin.unload(bundle, destination)
            assert await eventually(lambda: owner_of(cluster, topic)) == destination


async def test_a_refused_request_carries_the_reason_of_the_cluster(cluster: PulsarCluster) -> None:
    async with admin_of(cluster) as admin:
        destination = cluster.running[0].id
        whole = Bundle.parse("public/default/0x00000000_0xffffffff")
        with pytest.raises(PeerRefused, match="Invalid upper boundary for bundle"):
            await admin.unload(whole, destination)
        with pytest.raises(PeerRefused, match="Namespace not found"):
            await admin.unload(Bundle.parse("public/nowhere/0x00000000_0xffffffff"), destination)
        topic = Topic.parse("non-persistent://public/default/a")
        bundle = await admin.bundle_of(topic)
        with pytest.raises(PeerRefused, match="inactive destination broker"):
            await admin.unload(bundle, "127.0.0.1:1")
        with pytest.raises(PeerRefused, match="Unsupported namespace bundle split algorithm"):
            await admin.split(bundle, "by-eye", ())
        with pytest.raises(PeerRefused, match="non-dynamic configuration"):
            await admin.override("loadBalancerEnabled", "false")


async def test_a_bundle_is_split_at_the_requested_positions(cluster: PulsarCluster) -> None:
    namespace = "public/cut"
    await cluster.admin("PUT", f"namespaces/{namespace}", {"bundles": {"numBundles": 2}})
    left = Bundle.parse(f"{namespace}/0x00000000_0x80000000")
    right = Bundle.parse(f"{namespace}/0x80000000_0xffffffff")
    assert await boundaries(cluster, namespace) == ["0x00000000", "0x80000000", "0xffffffff"]
    names = [f"persistent/{namespace}/{number}" for number in range(20)]
    hashes = [Topic.parse(name.replace("/", "://", 1)).ring_hash for name in names]
    assert sum(position in right.range for position in hashes) > 2
    for name in names:
        reply = await cluster.admin("PUT", name, {})
        assert reply.status == 204, reply.body
    async with admin_of(cluster) as admin:
        await admin.split(left, "range_equally_divide", ())
        await admin.split(right, "specified_positions_divide", (0xC1234567,))
    assert await boundaries(cluster, namespace) == [
        *("0x00000000", "0x40000000", "0x80000000"),
        *("0xc1234567", "0xffffffff"),
    ]


async def test_its_own_balancing_is_seen_switched_off_and_put_back(cluster: PulsarCluster) -> None:
    async with admin_of(cluster) as admin:
        before = dict(await admin.overrides())
        assert await admin.cluster_balancer() == ()
        for key in (SHEDDING, SPLIT):
            await admin.override(key, "true")
        try:

            async def all_on() -> bool:
                keys = [one.key for one in await admin.cluster_balancer()]
                return keys == [SHEDDING, SPLIT]

            await eventually(all_on)
            found = await admin.cluster_balancer()
            assert all(one.brokers == tuple(sorted(b.id for b in cluster.running)) for one in found)
            former = await disable_balancing(admin, found)
            assert await admin.cluster_balancer() == ()
            assert await restore_balancing(admin, former) == ()
            await eventually(all_on)
        finally:
            for key in (SHEDDING, SPLIT):
                await admin.drop_override(key)

        async def as_before() -> bool:
            return await admin.overrides() == before and await admin.cluster_balancer() == ()

        await eventually(as_before)


async def test_registered_brokers_and_leader_are_those_that_the_cluster_reports(
    cluster: PulsarCluster,
) -> None:
    ids = sorted(broker.id for broker in cluster.running)
    async with admin_of(cluster) as admin:
        assert sorted(await admin.brokers()) == ids
        assert (await admin.leader() or "").removeprefix("http://") in ids
        for broker_id in ids:
            await admin.health(broker_id)
            report = (await admin.ask("broker-stats/load-report", broker_id)).json()
            assert report["webServiceUrl"] == f"http://{broker_id}"
