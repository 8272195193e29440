"""`broker-ctl attach` beside a real cluster with traffic."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.pulsar.attached import Attached, attached, imbalance, run_once
from tests.support.pulsar.cluster import PulsarCluster
from tests.support.pulsar.interruptions import interruptions_ms
from tests.support.pulsar.load import load
from tests.support.pulsar.skew import (
    flows,
    gather_at,
    owners_of,
    reported_bytes,
    topics_of,
    wait_reported,
)
from tests.support.pulsar.snapshot import Node, all_nodes
from tests.support.time.waiting import eventually

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(900)]

PER_SECOND = 240.0
BYTES = 1000
TOPICS = 24
BUNDLES = 12
LONGEST_S = 600.0
BROKERS = 3
SKEWED = 2.5
LEVEL = 1.25
# Four bundles of one size on three brokers: one of these has two, 1.5 of the mean.
SPREAD = 1.6
NEARLY = 0.8
LEVELLING_S = 240.0
# An operator's patience with a first command, not a measurement.
FIRST_PLAN_S = 60.0


def lasting(cluster: PulsarCluster) -> dict[str, Node]:
    """All nodes but those that brokers rewrite on their own: reports, averages, quotas, cursors."""
    changing = ("/loadbalance/brokers/", "/loadbalance/bundle-data", "/loadbalance/broker-time")
    nodes = all_nodes(cluster.zookeeper, ["/"])
    return {
        path: node
        for path, node in nodes.items()
        if not path.startswith((*changing, "/zookeeper", "/ledgers", "/managed-ledgers"))
    }


async def unevenness(cluster: PulsarCluster) -> float:
    """Bytes a second of the busiest broker over the mean."""
    return imbalance((await reported_bytes(cluster)).values())


async def level(cluster: PulsarCluster, limit: float = LEVEL, brokers: int = BROKERS) -> float:
    """How uneven it is, if it is spread over this number; 0 if not.

    Statistics that lack what has just moved say nothing.
    """
    reported = (await reported_bytes(cluster)).values()
    is_whole = sum(reported) > NEARLY * 2 * PER_SECOND * BYTES and len(reported) == brokers
    found = imbalance(reported)
    return found if is_whole and found <= limit else 0.0


async def settled(cluster: PulsarCluster, beside: Attached) -> float:
    """How uneven it is, if it is spread and nothing is under way; 0 if not.

    The state counts, whenever it is reached: the traffic of a busy machine comes in waves.
    """
    return await level(cluster) if beside.is_resting() else 0.0


async def test_a_dry_run_changes_nothing(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    namespace = "public/dry"
    await cluster.make_namespace(namespace, BUNDLES)
    chosen = flows(namespace, TOPICS, PER_SECOND, BYTES)
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await gather_at(cluster, namespace, cluster.brokers[0])
        await wait_reported(cluster, TOPICS, PER_SECOND)
        before = lasting(cluster)
        began_s = time.monotonic()
        code, picture = await run_once(cluster)
        planned_s = time.monotonic() - began_s
        assert lasting(cluster) == before
        async with attached(cluster, tmp_path) as beside:
            await eventually(
                lambda: [p for p in beside.pictures() if p["plan"] and p["plan"]["decisions"]],
                deadline_s=LEVELLING_S,
                what="it plans",
            )
            await eventually(
                lambda: len(beside.pictures()) >= 8, deadline_s=LEVELLING_S, what="8 pictures"
            )
            await beside.end()
        ours = "/broker-ctl"
        after = {path: n for path, n in lasting(cluster).items() if not path.startswith(ours)}
        assert after == before
        outcome = await running.end()
    assert code == 3
    assert [row["kind"] for row in picture["plan"]["decisions"]].count("transfer") >= 2
    plan = picture["plan"]
    assert plan["throughput_imbalance_after"] < plan["throughput_imbalance_before"]
    assert (outcome.lost, outcome.unknown) == (0, 0)
    assert planned_s < FIRST_PLAN_S
    figures["first_plan_s"] = round(planned_s, 1)


async def test_a_skewed_load_is_levelled_by_transfers_to_their_destinations(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    namespace = "public/skewed"
    await cluster.make_namespace(namespace, BUNDLES)
    chosen = flows(namespace, TOPICS, PER_SECOND, BYTES)
    names = [flow.topic for flow in chosen]
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await gather_at(cluster, namespace, cluster.brokers[0])
        await wait_reported(cluster, TOPICS, PER_SECOND)
        bundles = await topics_of(cluster, namespace, names)

        async def skewed() -> float:
            found = await unevenness(cluster)
            return found if found > SKEWED else 0.0

        uneven = await eventually(skewed, LEVELLING_S, "it is skewed", poll_s=0.5)
        began_s = time.monotonic()
        async with attached(cluster, tmp_path, "--act") as beside:
            even = await eventually(
                lambda: settled(cluster, beside), LEVELLING_S, "it is level", poll_s=0.5
            )
            levelled_s = time.monotonic() - began_s
            assert beside.reads_only_what_it_may(cluster)
            await beside.end()
            moved = beside.decided("transfer")
        held = await owners_of(cluster, namespace)
        outcome = await running.end()
    done = [row for row in moved if row["result"] == "done"]
    assert even <= LEVEL
    # Pulsar forgets a destination where another broker asks for the bundle before the destination
    # does: that is reported as `WentElsewhere`, and the next plan goes on from there.
    assert all(row["outcome"].startswith("WentElsewhere") for row in moved if row not in done)
    assert len(done) >= len(moved) / 2
    last = {row["bundle"]: row for row in moved}
    honoured = {name: row["destination"] for name, row in last.items() if row in done}
    assert honoured
    assert {bundle: held[bundle] for bundle in honoured} == honoured
    assert (outcome.lost, outcome.unknown, outcome.unacknowledged) == (0, 0, 0)
    waits = interruptions_ms(outcome, done, bundles)
    figures["levelling"] = {
        "imbalance_before": round(uneven, 3),
        "imbalance_after": round(even, 3),
        "levelled_s": round(levelled_s, 1),
        "transfers": len(moved),
        "destination_honoured": len(done),
        "sent": outcome.sent,
        "lost": outcome.lost,
        "repeated": outcome.repeated,
        "interruption_ms_p50": round(float(np.percentile(waits, 50)), 1),
        "interruption_ms_p99": round(float(np.percentile(waits, 99)), 1),
    }


async def test_a_hot_bundle_is_split_and_its_parts_are_spread(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    namespace = "public/hot"
    await cluster.make_namespace(namespace, 1)
    chosen = flows(namespace, TOPICS, PER_SECOND, BYTES)
    settings = {
        "loadBalancerAutoBundleSplitEnabled": "true",
        "loadBalancerSplitIntervalMinutes": "0.05",
        "loadBalancerNamespaceBundleMaxMsgRate": "160",
    }
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await wait_reported(cluster, TOPICS, PER_SECOND)
        began_s = time.monotonic()
        async with attached(cluster, tmp_path, "--act", settings=settings) as beside:
            await eventually(
                lambda: level(cluster, SPREAD), LEVELLING_S, "it is split and spread", poll_s=0.5
            )
            levelled_s = time.monotonic() - began_s
            await beside.end()
            split = [row for row in beside.decided("split") if row["result"] == "done"]
        even = await unevenness(cluster)
        boundaries = (await cluster.get(f"namespaces/{namespace}/bundles"))["boundaries"]
        held = await owners_of(cluster, namespace)
        outcome = await running.end()
    assert len(split) >= 1
    assert set(held) == {f"{namespace}/{low}_{high}" for low, high in pairwise(boundaries)}
    assert set(held.values()) == {broker.id for broker in cluster.brokers}
    assert (outcome.lost, outcome.unknown, outcome.unacknowledged) == (0, 0, 0)
    figures["splitting"] = {
        "bundles_before": 1,
        "bundles_after": len(held),
        "splits": len(split),
        "imbalance_after": round(even, 3),
        "levelled_s": round(levelled_s, 1),
        "sent": outcome.sent,
        "lost": outcome.lost,
        "repeated": outcome.repeated,
    }


async def test_a_killed_broker_is_done_without_and_filled_again(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    namespace = "public/killed"
    await cluster.make_namespace(namespace, BUNDLES)
    chosen = flows(namespace, TOPICS, PER_SECOND, BYTES)
    victim = cluster.brokers[-1]
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await wait_reported(cluster, TOPICS, PER_SECOND)
        names = [flow.topic for flow in chosen]
        asked_for = set((await topics_of(cluster, namespace, names)).values())

        async def others_have_it() -> bool:
            is_gone = victim.id not in await cluster.get("brokers")
            is_taken = (await owners_of(cluster, namespace)).keys() >= asked_for
            return is_gone and is_taken and await level(cluster, brokers=BROKERS - 1) > 0

        async with attached(cluster, tmp_path, "--act") as beside:
            await eventually(lambda: level(cluster), LEVELLING_S, "it is level", poll_s=0.5)
            killed_s = time.monotonic()
            await victim.kill()
            await eventually(others_have_it, LEVELLING_S, "the others have it all", poll_s=0.5)
            without_s = time.monotonic() - killed_s
            started_s = time.monotonic()
            await victim.start()
            await eventually(lambda: level(cluster), LEVELLING_S, "it is filled again", poll_s=0.5)
            filled_s = time.monotonic() - started_s
            await beside.end()
        outcome = await running.end()
    assert (outcome.lost, outcome.unknown, outcome.unacknowledged) == (0, 0, 0)
    figures["broker_killed"] = {
        "level_without_it_s": round(without_s, 1),
        "level_with_it_s": round(filled_s, 1),
        "sent": outcome.sent,
        "lost": outcome.lost,
        "repeated": outcome.repeated,
    }


async def test_a_killed_attach_leaves_nothing_that_its_successor_cannot_go_on_from(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    namespace = "public/succeeded"
    await cluster.make_namespace(namespace, BUNDLES)
    chosen = flows(namespace, TOPICS, PER_SECOND, BYTES)
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await gather_at(cluster, namespace, cluster.brokers[0])
        await wait_reported(cluster, TOPICS, PER_SECOND)
        asked_for = set((await topics_of(cluster, namespace, [f.topic for f in chosen])).values())
        async with attached(cluster, tmp_path, "--act") as first:

            async def has_begun() -> bool:
                return set((await owners_of(cluster, namespace)).values()) != {
                    cluster.brokers[0].id
                }

            await eventually(has_begun, LEVELLING_S, "the first bundle leaves", poll_s=0.05)
            first.kill()
        killed_s = time.monotonic()
        async with attached(cluster, tmp_path, "--act") as second:
            await eventually(
                lambda: settled(cluster, second), LEVELLING_S, "it is level", poll_s=0.5
            )
            levelled_s = time.monotonic() - killed_s
            await second.end()
            moved = second.decided("transfer")
        held = await owners_of(cluster, namespace)
        outcome = await running.end()
    assert held.keys() >= asked_for
    assert all(row["result"] in {"done", "failed"} for row in moved)
    assert (outcome.lost, outcome.unknown, outcome.unacknowledged) == (0, 0, 0)
    figures["attach_killed"] = {
        "levelled_by_successor_s": round(levelled_s, 1),
        "its_transfers": len(moved),
        "sent": outcome.sent,
        "lost": outcome.lost,
        "repeated": outcome.repeated,
    }
