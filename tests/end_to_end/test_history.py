"""The history that real daemons leave behind, some of which were killed while they wrote it."""

import json
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.broker.history import SegmentRules, Segments
from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.core.history.row_kinds import KINDS, ParsedLine, Stamp
from broker_ctl.core.model.names import RING_HIGH, BundleRange, Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.pipeline.history_files import lines, open_paths, segment_paths, segments
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

TOPICS = [Topic("persistent", Namespace("public", "default"), f"t-{n}") for n in range(12)]


def settings_for(directory: Path) -> dict[str, str]:
    return {
        "loadHistoryDirectory": str(directory),
        "loadHistorySegmentMaxSeconds": "1",
        "metadataStoreSessionTimeoutMillis": "4000",
        "loadBalancerSheddingIntervalMinutes": "0.005",
        "loadBalancerSplitIntervalMinutes": "0.02",
    }


async def written_by(directory: Path, epoch: int, cycles: int) -> bool:
    """Whether complete segments have the bundles of at least ``cycles`` cycles of that epoch."""
    stamps = (line.stamp for line in lines(directory) if line.stamp.kind == "bundle_loads")
    return len({stamp.cycle for stamp in stamps if stamp.epoch == epoch}) >= cycles


def open_paths_of(directory: Path, daemon: DaemonProcess) -> list[Path]:
    port = daemon.broker_id.rpartition(":")[2]
    return [path for path in open_paths(directory) if f"_{port}-" in path.name]


async def kill_while_it_writes(directory: Path, daemon: DaemonProcess) -> list[Path]:
    """What it leaves open."""

    def has_lines() -> bool:
        return any(path.stat().st_size for path in open_paths_of(directory, daemon))

    await eventually(has_lines, what="an open segment of the leader")
    await daemon.kill()
    return open_paths_of(directory, daemon)


async def led(
    directory: Path, http: HttpClient, cluster: ReplicatedDaemons, above: int
) -> tuple[DaemonProcess, int]:
    """The leader of a later epoch, once it has written for some cycles."""

    async def found() -> tuple[DaemonProcess, int] | None:
        leading = await leader_of(http, cluster.running)
        return leading if leading is not None and leading[1] > above else None

    leader, epoch = await eventually(found, 30.0, what="a leader")
    written = partial(written_by, directory, epoch, 3)
    await eventually(written, 30.0, what=f"three cycles of epoch {epoch}", poll_s=0.2)
    return leader, epoch


@pytest.mark.slow
async def test_rows_of_a_killed_daemon_are_whole_and_there_once(
    http: HttpClient, zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    directory = tmp_path / "history"
    url = f"zk:{zookeeper.connect_string}{chroot}"
    settings = {**SETTINGS, "metadataStoreUrl": url, **settings_for(directory)}
    async with ReplicatedDaemons(tmp_path, 4, settings, http) as cluster:
        daemons = list(cluster.by_id.values())
        await make_namespace(http, daemons[0])
        await cluster.create("orders", [1, 2, 3])

        async def is_served(topic: Topic) -> bool:
            return bool(await look_up(http, daemons[0], topic))

        for topic in TOPICS:
            await eventually(partial(is_served, topic), what=f"an owner of {topic}")
        leader, first = await led(directory, http, cluster, 0)
        left = await kill_while_it_writes(directory, leader)
        _, second = await led(directory, http, cluster, first)
        # Whatever the dead has left is completed by who comes after it.
        await leader.start()
        await leader.wait_ready(http)
        assert not any(path.exists() for path in left)
    # On leaving, all were killed.
    for daemon in daemons:
        Segments(directory, daemon.broker_id, "00", SegmentRules()).recover()
    assert open_paths(directory) == []
    found = lines(directory)
    ids = [line.stamp.id for line in found]
    assert len(ids) == len(set(ids))
    assert {line.stamp.kind for line in found} == KINDS.keys()
    assert {line.stamp.epoch for line in found} >= {0, first, second}
    check_loads(found)
    check_order(directory)
    check_rows(found, {daemon.broker_id for daemon in daemons})


def check_loads(found: list[ParsedLine]) -> None:
    """Exactly one row for each bundle of a cycle, and for each broker, in the whole directory."""
    bundles: Counter[tuple[int, int, str]] = Counter()
    brokers: Counter[tuple[int, int, str]] = Counter()
    writers = defaultdict(set)
    for line in found:
        stamp = line.stamp
        if stamp.kind == "bundle_loads":
            writers[stamp.epoch].add(stamp.writer)
            bundles.update((stamp.epoch, stamp.cycle, row.bundle) for row in line.rows)
        elif stamp.kind == "broker_loads":
            brokers.update((stamp.epoch, stamp.cycle, row.broker) for row in line.rows)
    assert set(bundles.values()) == set(brokers.values()) == {1}
    assert all(len(each) == 1 for each in writers.values())
    assert len(writers) >= 2
    by_cycle = defaultdict(list)
    for epoch, cycle, bundle in bundles:
        if bundle.startswith("public/default/"):
            by_cycle[epoch, cycle].append(BundleRange.parse(bundle.rpartition("/")[2]))
    for ranges in by_cycle.values():
        assert all(one.high <= next_.low for one, next_ in pairwise(sorted(ranges)))
    # Once all bundles were asked for, none is missing in a cycle.
    covered = [sum(each.high - each.low for each in ranges) for ranges in by_cycle.values()]
    assert max(covered) == RING_HIGH


def check_order(directory: Path) -> None:
    """By writer, lines are in the order in which they were made, and so are the segments."""
    last: dict[str, int] = defaultdict(int)
    last_ms: dict[tuple[str, str], int] = defaultdict(int)
    for segment in segments(directory):
        for line in segment.lines:
            nonce, number = line.stamp.id.split("-")
            assert int(number) > last[nonce], segment.name
            last[nonce] = int(number)
            assert line.stamp.at_ms >= last_ms[nonce, line.stamp.kind], segment.name
            last_ms[nonce, line.stamp.kind] = line.stamp.at_ms


def check_rows(found: list[ParsedLine], brokers: set[str]) -> None:
    """What the rows say fits what was done."""
    rows: dict[str, list[tuple[Stamp, Any]]] = defaultdict(list)
    for line in found:
        rows[line.stamp.kind] += [(line.stamp, row) for row in line.rows]
    assert {stamp.writer for stamp, _ in rows["session_events"]} == brokers
    begun = [(row.seat, stamp.epoch) for stamp, row in rows["leader_epochs"] if row.is_begin]
    assert len(begun) == len(set(begun))
    assert Counter(election for election, _ in begun)["loadbalance"] >= 2
    transitions = [row for _, row in rows["partition_transitions"]]
    assert ("orders", (1, 2, 3)) in {(row.topic, row.isr) for row in transitions}
    assert {row.broker for _, row in rows["capacities"]} == brokers
    acquired = {row.cause for _, row in rows["ownership_changes"] if row.is_acquired}
    assert "placement" in acquired
    policies = [row for _, row in rows["policy_versions"]]
    assert len(policies) >= 2
    assert {json.loads(row.settings)["dryRun"] for row in policies} == {"false"}
    assert {row.policy_hash for row in policies} == {policies[0].policy_hash}
    assert all(row.result for _, row in rows["decisions"])


async def test_a_daemon_keeps_to_its_bounds_and_says_what_it_wrote(
    new_cluster: NewCluster, http: HttpClient, tmp_path: Path
) -> None:
    directory = tmp_path / "history"
    bounds = {"loadHistorySegmentMaxSeconds": "0.1", "loadHistoryMaxSegments": "3"}
    async with new_cluster(1, **{**settings_for(directory), **bounds}) as cluster:
        await cluster.wait_ready(http)
        (daemon,) = cluster.all

        async def metrics() -> dict[str, float]:
            reply = await http.request("GET", f"{daemon.url}/metrics")
            texts = reply.body.decode().splitlines()
            history = [text for text in texts if text.startswith("broker_ctl_history_")]
            return {text.partition("{")[0]: float(text.rpartition(" ")[2]) for text in history}

        async def has_removed() -> dict[str, float] | None:
            values = await metrics()
            return values if values["broker_ctl_history_removed_segments_total"] >= 3 else None

        values = await eventually(has_removed, deadline_s=30.0, what="segments that had to go")
        assert values["broker_ctl_history_segments"] == 3
        assert values["broker_ctl_history_rows_total"] > 0
        assert values["broker_ctl_history_dropped_rows_total"] == 0
        assert values["broker_ctl_history_size_bytes"] > 0
    assert len(segment_paths(directory)) == 3
    assert lines(directory)
