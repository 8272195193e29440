"""Lists that join what a daemon knows with what the leader knows."""

import json
from collections.abc import Iterator

import pytest

from broker_ctl.core.rules import MIB
from tests.support.cli_cluster import Cluster, running
from tests.support.surface_parts import BUNDLES
from tests.support.web_server import free_port


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_bundles_are_listed_with_the_load_that_the_leader_knows(cluster: Cluster) -> None:
    leader_id = cluster.leader.broker_id
    cluster.world.assign(BUNDLES[1], leader_id)
    cluster.leader.desk.bundle_loads = {
        BUNDLES[1]: (20.0, 3.0 * MIB),
        BUNDLES[3]: (90.0, 1.5 * MIB),
        BUNDLES[0]: (0.0, 0.0),
    }
    result = cluster.run("bundles", "list", "t/ns")
    assert result.exit_code == 0, result.output
    lines = table(result.stdout)
    assert ["bundle", "owner", "token", "msg/s", "MiB/s", "note"] in lines
    in_ring = [
        [str(BUNDLES[0]), "-", "0", "0", "0", "-"],
        [str(BUNDLES[1]), leader_id, "101", "20", "3", "-"],
        [str(BUNDLES[2]), "-", "0", "-", "-", "-"],
        [str(BUNDLES[3]), "-", "0", "90", "1.5", "-"],
    ]
    assert [line for line in lines if line and line[0].startswith("t/ns/")] == in_ring
    by_load = table(cluster.run("bundles", "list", "t/ns", "--sort", "load").stdout)
    expected = [in_ring[number] for number in (1, 3, 0, 2)]
    assert [line for line in by_load if line and line[0].startswith("t/ns/")] == expected


def test_the_load_of_bundles_is_there_for_programs(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.leader.broker_id)
    cluster.leader.desk.bundle_loads = {BUNDLES[1]: (20.0, 3.0 * MIB)}
    first, second, *_ = cluster.json("bundles", "list", "t/ns", "--sort", "load")
    assert first == {
        "bundle": str(BUNDLES[1]),
        "owner": cluster.leader.broker_id,
        "token": 101,
        "note": "",
        "msg_rate": 20.0,
        "throughput": 3.0 * MIB,
    }
    assert second["bundle"] == str(BUNDLES[0])
    assert (second["msg_rate"], second["throughput"]) == (None, None)


def test_bundles_are_listed_where_nobody_leads(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.follower.broker_id)
    cluster.world.leader_id = None
    result = cluster.run("bundles", "list", "t/ns", "--output", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["owner"] for row in rows] == [None, cluster.follower.broker_id, None, None]
    assert {row["throughput"] for row in rows} == {None}
    assert "the load is unknown: nobody leads at the moment" in result.stderr
