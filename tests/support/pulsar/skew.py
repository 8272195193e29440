"""Uneven load on a real cluster, and how uneven it is by the brokers' own reports."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

from broker_ctl.core.model.names import Topic
from tests.support.pulsar.checks import owners, ring_of
from tests.support.pulsar.cluster import PulsarBroker, PulsarCluster
from tests.support.pulsar.snapshot import all_nodes
from tests.support.pulsar.traffic import Flow
from tests.support.time.waiting import eventually

_DEADLINE_S = 120.0


def flows(namespace: str, topics: int, per_second: float, size_bytes: int) -> list[Flow]:
    """Topics of which the last has three times the traffic of the first; the sum is given."""
    parts = [1 + 2 * number / max(1, topics - 1) for number in range(topics)]
    return [
        Flow(f"persistent://{namespace}/{number}", per_second * part / sum(parts), size_bytes)
        for number, part in enumerate(parts)
    ]


def owners_of(cluster: PulsarCluster, namespace: str) -> Mapping[str, str]:
    """Broker id by bundle, as the nodes say now."""
    nodes = all_nodes(cluster.zookeeper, [f"/namespace/{namespace}"])
    return owners(nodes)


def topics_of(cluster: PulsarCluster, namespace: str, topics: Sequence[str]) -> dict[str, str]:
    """Bundle by topic, as the ring is now."""
    ring = ring_of(all_nodes(cluster.zookeeper, ["/admin"]), namespace)
    return {topic: str(ring.bundle_of(Topic.parse(topic))) for topic in topics}


async def gather_at(cluster: PulsarCluster, namespace: str, broker: PulsarBroker) -> None:
    """Move all bundles of a namespace, each of which has a client, to one broker."""
    boundaries = (await cluster.get(f"namespaces/{namespace}/bundles"))["boundaries"]
    bundles = [f"{low}_{high}" for low, high in pairwise(boundaries)]

    async def are_there() -> bool:
        held = owners_of(cluster, namespace)
        for bundle in bundles:
            owner = held.get(f"{namespace}/{bundle}")
            # Pulsar honours the destination at the first lookup only, whichever broker gets it.
            if owner is not None and owner != broker.id:
                unload = f"namespaces/{namespace}/{bundle}/unload?destinationBroker={broker.id}"
                await cluster.put(unload, json=[])
        held = owners_of(cluster, namespace)
        return bool(held) and set(held.values()) == {broker.id}

    await eventually(are_there, deadline_s=_DEADLINE_S, what=f"{broker.id} owns all", poll_s=0.5)


def reported_bytes(cluster: PulsarCluster) -> dict[str, float]:
    """Bytes a second, in and out, by each broker's own report."""
    nodes = all_nodes(cluster.zookeeper, ["/loadbalance/brokers"])
    reports = {
        path.rpartition("/")[2]: json.loads(node.data) for path, node in nodes.items() if node.data
    }
    return {
        broker_id: float(report["msgThroughputIn"]) + float(report["msgThroughputOut"])
        for broker_id, report in reports.items()
    }
