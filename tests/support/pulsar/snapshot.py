"""What a Pulsar cluster keeps in ZooKeeper and what its brokers answer, at one moment.

A snapshot of a live cluster and one out of ``tests/pulsar/recorded`` are the same value, so that
both are held to the same checks.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.support.pulsar.cluster import PulsarBroker, PulsarCluster
from tests.support.pulsar.files import CLUSTER
from tests.support.time.waiting import eventually

# What a load manager outside reads; ledgers, schemas and what ZooKeeper keeps are none of it.
ROOTS: Final = ("/admin", "/loadbalance", "/namespace")
# A broker measures these again for each answer, so two answers differ in them.
_VOLATILE: Final = ("lastUpdate", "memory", "directMemory", "maxResourceUsage")
# Of a rate: it is measured over two seconds, in which the last message may still be due.
_NEARLY: Final = 0.9
_SETTLED_S: Final = 120.0
# They are emptied by the write that a broker makes a moment later.
_SINCE_THE_LAST_WRITE: Final = ("lastBundleGains", "lastBundleLosses")


@dataclass(frozen=True, slots=True)
class Node:
    """One znode; ``owner`` is the session of an ephemeral one, and 0 for all others."""

    data: str
    version: int
    owner: int

    @property
    def bytes(self) -> bytes:
        return self.data.encode()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Nodes by path, and what ``GET`` answered by path below ``/admin/v2/``.

    The answer about a broker itself is below ``BROKER_ID:``.
    """

    nodes: Mapping[str, Node]
    answers: Mapping[str, Any]

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what `save` wrote."""
        read = json.loads(file.read_text(encoding="utf-8"))
        nodes = {path: Node(**node) for path, node in read["nodes"].items()}
        return cls(nodes, read["answers"])

    def save(self, file: Path) -> None:
        """Write it, one node or answer a line."""
        nodes = {path: asdict(node) for path, node in self.nodes.items()}
        text = f'{{"nodes": {_lines(nodes)},\n"answers": {_lines(self.answers)}}}\n'
        file.write_text(text, encoding="utf-8")

    def below(self, root: str) -> Iterator[tuple[str, Node]]:
        """Nodes under ``root`` that hold something, with their whole paths."""
        for path, node in self.nodes.items():
            if path.startswith(f"{root}/") and node.data:
                yield path, node


def _lines(values: Mapping[str, Any]) -> str:
    rows = (f"{json.dumps(key)}: {json.dumps(values[key])}" for key in sorted(values))
    return "{\n" + ",\n".join(rows) + "\n}"


def all_nodes(zookeeper: str, roots: Iterable[str] = ROOTS) -> dict[str, Node]:
    """Every znode below these roots, the roots among them."""
    client = KazooClient(zookeeper)
    client.start()
    try:
        return {path: node for root in roots for path, node in _walk(client, root)}
    finally:
        client.stop()
        client.close()


def _walk(client: KazooClient, path: str) -> Iterator[tuple[str, Node]]:
    try:
        data, stat = client.get(path)
        children = client.get_children(path)
    except NoNodeError:  # it went while we walked
        return
    yield path, Node(data.decode(errors="backslashreplace"), stat.version, stat.ephemeralOwner)
    for name in children:
        yield from _walk(client, f"{path.rstrip('/')}/{name}")


async def capture(cluster: PulsarCluster, namespaces: Iterable[str]) -> Snapshot:
    """Nodes and answers of a cluster in which nobody acts now.

    Reports are taken again until a broker says the same before and after its node was read.
    """
    answers = {"brokers/leaderBroker": await cluster.get("brokers/leaderBroker")}
    for namespace in namespaces:
        path = f"namespaces/{namespace}/bundles"
        answers[path] = await cluster.get(path)
    for broker in cluster.running:
        path = f"brokers/{CLUSTER}/{broker.id}/ownedNamespaces"
        answers[path] = await cluster.get(path, broker=broker)
    nodes = all_nodes(cluster.zookeeper)
    for broker in cluster.running:
        path, node, answer = await _settled_report(cluster, broker)
        nodes[path] = node
        answers[f"{broker.id}:broker-stats/load-report"] = answer
    return Snapshot(nodes, answers)


async def wait_reported(cluster: PulsarCluster, topics: int, per_second: float) -> None:
    """Wait until the brokers' nodes have this many topics, with nearly this traffic."""

    def are_reported() -> bool:
        nodes = all_nodes(cluster.zookeeper, ["/loadbalance/brokers"])
        reports = [json.loads(node.data) for node in nodes.values() if node.data]
        found = sum(int(report["numTopics"]) for report in reports)
        rate = sum(float(report["msgRateIn"]) for report in reports)
        return found >= topics and rate > _NEARLY * per_second

    await eventually(
        are_reported, deadline_s=_SETTLED_S, what="the traffic is reported", poll_s=0.5
    )


async def _settled_report(
    cluster: PulsarCluster, broker: PulsarBroker
) -> tuple[str, Node, dict[str, Any]]:
    path = f"/loadbalance/brokers/{broker.id}"

    async def same() -> tuple[str, Node, dict[str, Any]] | None:
        before = await cluster.get("broker-stats/load-report", broker=broker)
        node = all_nodes(cluster.zookeeper, [path])[path]
        after = await cluster.get("broker-stats/load-report", broker=broker)
        written = json.loads(node.data)
        is_same = lasting(before) == lasting(written) == lasting(after)
        return (path, node, after) if is_same else None

    return await eventually(same, deadline_s=_SETTLED_S, what=f"{broker.id} reports what it says")


def lasting(report: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a report that are equal until the broker has new statistics.

    Limits of memory are among them; what is used of it is not.
    """
    passing = (*_VOLATILE, *_SINCE_THE_LAST_WRITE)
    kept = {name: value for name, value in report.items() if name not in passing}
    limits = {name: report[name]["limit"] for name in ("memory", "directMemory")}
    return {**kept, "limits": limits}
