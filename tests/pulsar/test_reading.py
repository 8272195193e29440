"""Our decoders read the nodes and answers of real brokers."""

import random
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker_ctl.core.model.names import Topic
from tests.pulsar.record import bundle_range, busy, split_first
from tests.support.http.odd_names import odd_names
from tests.support.pulsar.checks import (
    broker_ids,
    check_leader,
    check_owners,
    check_report,
    check_ring,
    ring_of,
)
from tests.support.pulsar.cluster import PulsarCluster
from tests.support.pulsar.snapshot import all_nodes, capture

pytestmark = pytest.mark.pulsar

NAMESPACE = "public/read"
SPLIT = "public/split"
NAMES = 1000


async def test_our_reading_of_nodes_equals_what_brokers_answer(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    await cluster.make_namespace(NAMESPACE, 8)
    async with busy(cluster, NAMESPACE, tmp_path) as running:
        snapshot = await capture(cluster, ["public/default", NAMESPACE])
        outcome = await running.end()
    assert outcome.sent > 0
    assert (outcome.lost, outcome.unknown) == (0, 0)
    assert sorted(broker_ids(snapshot)) == sorted(broker.id for broker in cluster.brokers)
    for broker_id in broker_ids(snapshot):
        check_report(snapshot, broker_id)
    check_leader(snapshot)
    owned = check_owners(snapshot)
    bundles = sum(check_ring(snapshot, name) for name in ("public/default", NAMESPACE))
    figures["reading"] = {"reports": len(cluster.brokers), "owners": owned, "bundles": bundles}


async def test_every_topic_is_in_the_bundle_that_we_say(
    cluster: PulsarCluster, figures: dict[str, Any]
) -> None:
    await cluster.make_namespace(SPLIT, 3)
    for _ in range(2):
        await split_first(cluster, SPLIT)
    names = odd_names(random.Random(7), SPLIT, NAMES - 100)
    names += [f"persistent://{SPLIT}/parted-partition-{number}" for number in range(100)]
    ring = ring_of(all_nodes(cluster.zookeeper), SPLIT)
    assert len(ring.bundles) == 5
    async with aiohttp.ClientSession() as http:
        said = {name: await bundle_range(http, cluster.admin_url, name) for name in names}
    assert said == {name: str(ring.bundle_of(Topic.parse(name)).range) for name in names}
    figures["bundle_of_topic"] = {"names": len(names), "bundles": len(ring.bundles)}
