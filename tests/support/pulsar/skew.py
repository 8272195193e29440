"""Uneven load on a real cluster, and how uneven it is by the brokers' own reports."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from broker_ctl.core.model.names import Namespace, Ring, Topic
from tests.support.pulsar.cluster import PulsarBroker, PulsarCluster
from tests.support.pulsar.files import CLUSTER
from tests.support.pulsar.traffic import Flow
from tests.support.time.waiting import eventually

_DEADLINE_S = 120.0
_NEARLY = 0.8


def flows(namespace: str, topics: int, per_second: float, size_bytes: int) -> list[Flow]:
    """Topics of which the last has three times the traffic of the first; the sum is given."""
    parts = [1 + 2 * number / max(1, topics - 1) for number in range(topics)]
    return [
        Flow(f"persistent://{namespace}/{number}", per_second * part / sum(parts), size_bytes)
        for number, part in enumerate(parts)
    ]


async def owners_of(cluster: PulsarCluster, namespace: str) -> Mapping[str, str]:
    """Broker id by bundle, as each broker says now; one that does not answer owns nothing."""
    found: dict[str, str] = {}
    for broker in cluster.running:
        reply = await cluster.admin(
            "GET", f"brokers/{CLUSTER}/{broker.id}/ownedNamespaces", broker=broker
        )
        owned = reply.json() if reply.status == HTTPStatus.OK else ()
        found.update({bundle: broker.id for bundle in owned if bundle.startswith(f"{namespace}/")})
    return found


async def topics_of(
    cluster: PulsarCluster, namespace: str, topics: Sequence[str]
) -> dict[str, str]:
    """Bundle by topic, as the ring is now."""
    bundles = await cluster.get(f"namespaces/{namespace}/bundles")
    points = tuple(int(point, 16) for point in bundles["boundaries"])
    ring = Ring(Namespace.parse(namespace), points, 0)
    return {topic: str(ring.bundle_of(Topic.parse(topic))) for topic in topics}


async def gather_at(cluster: PulsarCluster, namespace: str, broker: PulsarBroker) -> None:
    """Move all bundles of a namespace, each of which has a client, to one broker."""
    boundaries = (await cluster.get(f"namespaces/{namespace}/bundles"))["boundaries"]
    bundles = [f"{low}_{high}" for low, high in pairwise(boundaries)]

    async def are_there() -> bool:
        held = await owners_of(cluster, namespace)
        for bundle in bundles:
            owner = held.get(f"{namespace}/{bundle}")
            # Pulsar honours the destination at the first lookup only, whichever broker gets it.
            if owner is not None and owner != broker.id:
                unload = f"namespaces/{namespace}/{bundle}/unload?destinationBroker={broker.id}"
                await cluster.put(unload, json=[])
        held = await owners_of(cluster, namespace)
        return bool(held) and set(held.values()) == {broker.id}

    await eventually(are_there, deadline_s=_DEADLINE_S, what=f"{broker.id} owns all", poll_s=0.5)


async def reported_bytes(cluster: PulsarCluster) -> dict[str, float]:
    """Bytes a second, in and out, of the topics of each broker by its own statistics."""
    return {
        broker_id: sum(topic["msgThroughputIn"] + topic["msgThroughputOut"] for topic in topics)
        for broker_id, topics in (await _topics(cluster)).items()
    }


async def wait_reported(cluster: PulsarCluster, topics: int, per_second: float) -> None:
    """Wait until the brokers' statistics have this many topics, with nearly this traffic."""

    async def are_reported() -> bool:
        found = [topic for each in (await _topics(cluster)).values() for topic in each]
        rate = sum(topic["msgRateIn"] for topic in found)
        return len(found) >= topics and rate > _NEARLY * per_second

    await eventually(are_reported, deadline_s=_DEADLINE_S, what="the traffic shows", poll_s=0.5)


async def _topics(cluster: PulsarCluster) -> dict[str, list[dict[str, Any]]]:
    """Statistics of all topics of users, by broker."""
    found = {}
    for broker in cluster.running:
        stats = await cluster.get("broker-stats/topics", broker=broker)
        found[broker.id] = [
            topic
            for namespace, bundles in stats.items()
            if not namespace.startswith("pulsar/")
            for domains in bundles.values()
            for topics in domains.values()
            for topic in topics.values()
        ]
    return found
