"""What other tools read in ZooKeeper, read by a client that is not ours."""

import asyncio
import json
from typing import Any

from kazoo.client import KazooClient

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

RESOURCE = {"usage": float, "limit": float}
STATS = {
    "msgRateIn": float, "msgThroughputIn": float, "msgRateOut": float, "msgThroughputOut": float,
    "consumerCount": int, "producerCount": int, "topics": int, "cacheSize": int,
}  # fmt: skip
AVERAGE = {
    "maxSamples": int, "numSamples": int, "msgThroughputIn": float, "msgThroughputOut": float,
    "msgRateIn": float, "msgRateOut": float,
}  # fmt: skip
REPORT = {
    "brokerId": str, "webServiceUrl": str, "pulsarServiceUrl": str,
    "persistentTopicsEnabled": bool, "nonPersistentTopicsEnabled": bool,
    "cpu": RESOURCE, "memory": RESOURCE, "directMemory": RESOURCE,
    "bandwidthIn": RESOURCE, "bandwidthOut": RESOURCE,
    "msgThroughputIn": float, "msgThroughputOut": float, "msgRateIn": float, "msgRateOut": float,
    "lastUpdate": int, "lastStats": dict,
    "numTopics": int, "numBundles": int, "numConsumers": int, "numProducers": int,
    "bundles": list, "lastBundleGains": list, "lastBundleLosses": list,
    "brokerVersionString": str, "protocols": dict, "advertisedListeners": dict,
    "loadManagerClassName": str, "startTimestamp": int, "maxResourceUsage": float,
    "loadReportType": str,
}  # fmt: skip
OWNER = {
    "brokerId": str, "nativeUrl": str, "httpUrl": str, "disabled": bool,
    "advertisedListeners": dict,
}  # fmt: skip


def assert_fits(row: Any, wanted: dict[str, Any]) -> None:
    """Exactly Pulsar's fields, each of Java's type; whole numbers may stand for doubles."""
    assert set(row) == set(wanted)
    for name, kind in wanted.items():
        if isinstance(kind, dict):
            assert_fits(row[name], kind)
        elif kind is float:
            assert type(row[name]) in {float, int}, (name, row[name])
        else:
            assert type(row[name]) is kind, (name, row[name])


async def test_field_names_and_types_are_pulsars(
    new_cluster: NewCluster, http: HttpClient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    topic = Topic("persistent", Namespace("public", "default"), "topic-100")
    async with new_cluster(1, loadBalancerResourceQuotaUpdateIntervalMinutes="0.02") as daemons:
        await daemons.wait_ready(http)
        only = daemons.all[0]
        await make_namespace(http, only)
        await eventually(lambda: leader_of(http, daemons.all), what="a leader")
        await eventually(lambda: look_up(http, only, topic), what="an owner")
        client = KazooClient(hosts=zookeeper.connect_string + chroot)
        await asyncio.to_thread(client.start)
        try:

            def read(path: str) -> Any:
                data, stat = client.get(path)
                return json.loads(data), stat

            def children(path: str) -> list[str]:
                return client.get_children(path) if client.exists(path) else []

            (name,) = await eventually(
                lambda: asyncio.to_thread(children, "/namespace/public/default")
            )
            owner, stat = await asyncio.to_thread(read, f"/namespace/public/default/{name}")
            assert_fits(owner, OWNER)
            assert owner["brokerId"] == only.broker_id
            assert stat.ephemeralOwner != 0

            async def report() -> Any:
                row, stat = await asyncio.to_thread(read, f"/loadbalance/brokers/{only.broker_id}")
                return (row, stat) if row["bundles"] else None

            row, stat = await eventually(report, what="a report that names the bundle")
            assert_fits(row, REPORT)
            assert row["loadReportType"] == "LocalBrokerData"
            assert row["bundles"] == [f"public/default/{name}"]
            assert_fits(row["lastStats"][f"public/default/{name}"], STATS)
            assert stat.ephemeralOwner != 0

            row, stat = await asyncio.to_thread(read, "/loadbalance/leader")
            assert_fits(row, {"brokerId": str, "serviceUrl": str})
            assert row == {"brokerId": only.broker_id, "serviceUrl": only.url}
            assert stat.ephemeralOwner != 0

            row, stat = await asyncio.to_thread(read, "/admin/local-policies/public/default")
            assert_fits(row, {"bundles": {"boundaries": list, "numBundles": int}})
            assert row["bundles"]["boundaries"][0] == "0x00000000"
            assert row["bundles"]["numBundles"] == len(row["bundles"]["boundaries"]) - 1
            assert stat.ephemeralOwner == 0

            root = "/loadbalance/bundle-data/public/default"
            await eventually(lambda: asyncio.to_thread(children, root), what="bundle data")
            row, _ = await asyncio.to_thread(read, f"{root}/{name}")
            assert_fits(row, {"shortTermData": AVERAGE, "longTermData": AVERAGE, "topics": int})
        finally:
            await asyncio.to_thread(client.stop)
            await asyncio.to_thread(client.close)
