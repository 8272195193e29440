"""Compares what our decoders read in Pulsar's nodes with the answers of its brokers."""

import json
from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.core.model.broker import broker_id_of
from broker_ctl.core.model.load import BundleStats, ResourceUsage
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.store import paths
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.ownership import LeaderBroker, NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies, PoliciesRecord
from tests.support.pulsar.files import CLUSTER
from tests.support.pulsar.snapshot import Node, Snapshot, lasting

# Pulsar's name of each statistic of a bundle, in the order of `BundleStats`.
_STATISTICS: Final = (
    "msgRateIn",
    "msgRateOut",
    "msgThroughputIn",
    "msgThroughputOut",
    "topics",
    "producerCount",
    "consumerCount",
    "cacheSize",
)
_SETS: Final = ("bundles", "lastBundleGains", "lastBundleLosses")
_DIGITS: Final = 6
_RESOURCES: Final = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
_TOTALS: Final = {
    "msgRateIn": "msg_rate_in",
    "msgRateOut": "msg_rate_out",
    "msgThroughputIn": "msg_throughput_in",
    "msgThroughputOut": "msg_throughput_out",
    "numTopics": "topics",
    "numProducers": "producers",
    "numConsumers": "consumers",
}


def broker_ids(snapshot: Snapshot) -> list[str]:
    """Brokers that had registered."""
    return [path.rpartition("/")[2] for path, _ in snapshot.below(paths.LOAD_REPORTS)]


def check_report(snapshot: Snapshot, broker_id: str) -> None:
    """Our reading of a broker's report has all that it answers itself, and nothing else."""
    path = f"{paths.LOAD_REPORTS}/{broker_id}"
    written = json.loads(snapshot.nodes[path].data)
    said = snapshot.answers[f"{broker_id}:broker-stats/load-report"]
    assert lasting(written) == lasting(said)
    ours = LocalBrokerData.decode(path, snapshot.nodes[path].bytes)
    rebuilt = as_pulsar_writes(ours)
    # Pulsar writes it and reads it from nowhere: the largest of its percentages.
    assert abs(written.pop("maxResourceUsage") - rebuilt.pop("maxResourceUsage")) < 1e-6
    # Pulsar keeps them in sets, and adds them up in the order of one: the last digits are chance.
    for report in (rebuilt, written):
        report.update({name: sorted(report[name]) for name in _SETS})
        report.update({name: round(report[name], _DIGITS) for name in _TOTALS})
    differing = {name for name in rebuilt | written if rebuilt.get(name) != written.get(name)}
    assert not differing, {name: (rebuilt.get(name), written.get(name)) for name in differing}
    again = LocalBrokerData.decode(path, json.dumps(said).encode())
    assert again.urls == ours.urls
    assert again.load.bundles == ours.load.bundles


def as_pulsar_writes(ours: LocalBrokerData) -> dict[str, Any]:
    """A report as the fields of Pulsar 4.0, each out of the value that we keep it in."""
    urls, load, usage = ours.urls, ours.load, ours.load.usage
    named = dict(zip(_RESOURCES, usage.resources, strict=True))
    counted = [resource for name, resource in named.items() if name != "memory"]
    return {
        "webServiceUrl": urls.web_url,
        "pulsarServiceUrl": urls.native_url,
        "persistentTopicsEnabled": ours.persistent_topics,
        "nonPersistentTopicsEnabled": ours.non_persistent_topics,
        **{name: _resource(resource) for name, resource in named.items()},
        **{name: getattr(load.total, kept) for name, kept in _TOTALS.items()},
        "lastUpdate": load.updated_ms,
        "lastStats": {bundle: _statistics(stats) for bundle, stats in load.bundles.items()},
        "numBundles": load.bundle_count,
        "bundles": list(load.bundles),
        "lastBundleGains": list(ours.gains),
        "lastBundleLosses": list(ours.losses),
        "brokerVersionString": load.version,
        "protocols": dict(ours.protocols),
        "advertisedListeners": {listener.name: {} for listener in urls.listeners},
        "loadManagerClassName": ours.load_manager,
        "startTimestamp": load.started_ms,
        "maxResourceUsage": max(resource.percent for resource in counted) / 100,
        "loadReportType": "LocalBrokerData",
    }


def _resource(usage: ResourceUsage) -> dict[str, float]:
    return {"usage": usage.usage, "limit": usage.limit}


def _statistics(stats: BundleStats) -> dict[str, float]:
    values = (
        stats.msg_rate_in,
        stats.msg_rate_out,
        stats.msg_throughput_in,
        stats.msg_throughput_out,
        stats.topics,
        stats.producers,
        stats.consumers,
        stats.cache_size_bytes,
    )
    return dict(zip(_STATISTICS, values, strict=True))


def check_leader(snapshot: Snapshot) -> None:
    """Who leads, by the node and by the answer."""
    path = paths.LOADBALANCE_ELECTION.node_path
    ours = LeaderBroker.decode(path, snapshot.nodes[path].bytes)
    said = snapshot.answers["brokers/leaderBroker"]
    assert (ours.broker_id, ours.service_url) == (said["brokerId"], said["serviceUrl"])
    assert snapshot.nodes[path].owner != 0
    assert ours.broker_id in broker_ids(snapshot)


def check_owners(snapshot: Snapshot) -> int:
    """Who owns which bundle, by the nodes and by what each broker says; how many there are."""
    ours = owners(snapshot.nodes)
    said = {
        bundle: broker_id
        for broker_id in broker_ids(snapshot)
        for bundle in snapshot.answers[f"brokers/{CLUSTER}/{broker_id}/ownedNamespaces"]
        # Names of three parts are of Pulsar's first generation: its own heartbeats have them.
        if bundle.count("/") == 2
    }
    assert ours == said
    return len(ours)


def owners(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Broker id by bundle, out of the owners' ephemeral nodes."""
    found = {}
    for path, node in nodes.items():
        if (bundle := paths.owned_bundle(path)) is not None and node.data:
            owner = NamespaceEphemeralData.decode(path, node.bytes)
            assert node.owner != 0, f"{path} is not ephemeral"
            assert not owner.is_disabled
            assert owner.urls.broker_id == broker_id_of(owner.urls.web_url or "")
            found[str(bundle)] = owner.urls.broker_id
    return found


def check_ring(snapshot: Snapshot, namespace: str) -> int:
    """A namespace's bundles, by the nodes and by the answer; how many there are."""
    ring = ring_of(snapshot.nodes, namespace)
    said = snapshot.answers[f"namespaces/{namespace}/bundles"]
    assert [f"0x{point:08x}" for point in ring.boundaries] == said["boundaries"]
    assert len(ring.bundles) == said["numBundles"]
    return len(ring.bundles)


def ring_of(nodes: Mapping[str, Node], namespace: str) -> Ring:
    """Out of the local policies, which a namespace has from its first lookup on, or its policies.

    Where there are both, they hold the same ring.
    """
    parsed = Namespace.parse(namespace)
    general_path, path = paths.policies(parsed), paths.local_policies(parsed)
    general = PoliciesRecord.decode(general_path, nodes[general_path].bytes)
    assert general.boundaries is not None
    local = nodes.get(path)
    if local is None:
        return Ring(parsed, general.boundaries, version=0)
    ring = LocalPolicies.decode(path, local.bytes).ring(parsed, local.version)
    assert ring.boundaries == general.boundaries
    return ring
