"""Record what a real cluster keeps and answers, for tests that run without one.

    python -m tests.pulsar.record

Writes ``tests/pulsar/recorded/cluster-VERSION.json``. Do it again when ``pom.xml`` names another
version; ports, sessions and times are new in each recording, and no test may depend on them.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from broker_ctl.core.model.names import Topic
from tests.support.http.odd_names import odd_names
from tests.support.pulsar.cluster import PulsarCluster, pulsar_cluster
from tests.support.pulsar.distribution import distribution
from tests.support.pulsar.files import CLUSTER
from tests.support.pulsar.load import Load, idle_producers, load
from tests.support.pulsar.snapshot import Snapshot, capture, wait_reported
from tests.support.pulsar.traffic import Flow

RECORDED: Final = Path(__file__).with_name("recorded")
NAMESPACE: Final = "public/recorded"
BUNDLE_RANGES: Final = "bundle ranges"
REFUSALS: Final = "refusals"
_BROKERS: Final = 2
_BUNDLES: Final = 4
_TOPICS: Final = 12
_IDLE: Final = 5
_NAMES: Final = 100
_LONGEST_S: Final = 120.0
# Keys of `brokers/configuration/runtime` that a balancer outside may ask for.
_BALANCER_KEYS: Final = (
    "loadBalance",
    "loadManager",
    "Bundle",
    "Unload",
    "Shedding",
    "statsUpdate",
)


async def bundle_range(http: aiohttp.ClientSession, admin_url: str, name: str) -> str:
    """The answer of ``pulsar-admin topics bundle-range``."""
    topic = Topic.parse(name)
    path = f"{topic.domain}/{topic.namespace}/{quote(topic.local, safe='')}/bundle"
    # Encoded once: what the client takes for harmless in a path, as `;`, it would decode again.
    url = URL(f"{admin_url}/lookup/v2/topic/{path}", encoded=True)
    async with http.get(url) as reply:
        return await reply.text()


async def split_first(cluster: PulsarCluster, namespace: str) -> None:
    """Halve the first bundle of a namespace."""
    low, high, *_ = (await cluster.get(f"namespaces/{namespace}/bundles"))["boundaries"]
    # A body, also an empty one, makes it JSON: any other type is refused.
    await cluster.put(f"namespaces/{namespace}/{low}_{high}/split", json=[])


@asynccontextmanager
async def busy(cluster: PulsarCluster, namespace: str, scratch: Path) -> AsyncIterator[Load]:
    """A dozen topics with traffic, which stands in the reports; some have an idle producer, too."""
    topics = [f"persistent://{namespace}/{number}" for number in range(_TOPICS)]
    flows = [Flow(topic, 5.0 + number) for number, topic in enumerate(topics)]
    url = cluster.service_url
    async with load(scratch, url, flows, _LONGEST_S) as running:
        with idle_producers(url, topics[:_IDLE]):
            await wait_reported(cluster, _TOPICS, sum(flow.per_second for flow in flows))
            yield running


async def record(cluster: PulsarCluster, scratch: Path) -> Snapshot:
    """A snapshot of a cluster with some traffic and a split bundle."""
    await cluster.make_namespace(NAMESPACE, _BUNDLES)
    await split_first(cluster, NAMESPACE)
    async with busy(cluster, NAMESPACE, scratch):
        snapshot = await capture(cluster, ["public/default", NAMESPACE])
    extra = {
        "brokers/configuration": await cluster.get("brokers/configuration"),
        "brokers/configuration/values": await cluster.get("brokers/configuration/values"),
        "brokers/configuration/runtime": await _runtime(cluster),
        f"brokers/{CLUSTER}": await cluster.get(f"brokers/{CLUSTER}"),
        "clusters": await cluster.get("clusters"),
        BUNDLE_RANGES: await _bundle_ranges(cluster),
        REFUSALS: await _refusals(cluster),
    }
    return Snapshot(snapshot.nodes, {**snapshot.answers, **extra})


async def _runtime(cluster: PulsarCluster) -> Mapping[str, str]:
    found: dict[str, str] = await cluster.get("brokers/configuration/runtime")
    return {
        key: value for key, value in found.items() if any(part in key for part in _BALANCER_KEYS)
    }


async def _bundle_ranges(cluster: PulsarCluster) -> Mapping[str, str]:
    names = odd_names(random.Random(7), NAMESPACE, _NAMES)
    async with aiohttp.ClientSession() as http:
        return {name: await bundle_range(http, cluster.admin_url, name) for name in names}


async def _refusals(cluster: PulsarCluster) -> Mapping[str, Any]:
    bundle = f"namespaces/{NAMESPACE}/0x40000000_0x80000000"
    asked: dict[str, list[int]] = {
        f"{bundle}/unload?destinationBroker=nobody:1": [],
        f"namespaces/{NAMESPACE}/0x00000001_0x40000000/unload": [],
        f"namespaces/{NAMESPACE}/0x40000000_0x80000001/split": [],
        f"{bundle}/split?splitAlgorithmName=by_magic": [],
        f"{bundle}/split?splitAlgorithmName=specified_positions_divide": [],
        "namespaces/public/nowhere/0x00000000_0xffffffff/unload": [],
    }
    replies = {path: await cluster.admin("PUT", path, body) for path, body in asked.items()}
    return {
        path: {"status": reply.status, "body": reply.body.decode()}
        for path, reply in replies.items()
    }


def main() -> None:
    """Start a cluster, record it, and write the file."""
    pulsar = distribution()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch, "cluster")
        with pulsar_cluster(directory, pulsar, brokers=_BROKERS) as cluster:
            snapshot = asyncio.run(record(cluster, Path(scratch)))
    RECORDED.mkdir(exist_ok=True)
    snapshot.save(RECORDED / f"cluster-{pulsar.version}.json")


if __name__ == "__main__":
    main()
