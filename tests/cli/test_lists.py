"""Lists that join what a daemon knows with what the leader knows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.core.rules.leader_rules import MIB
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, TOKEN
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting

READER = "a-secret-of-another-user"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_bundles_are_listed_with_the_load_that_the_leader_knows(cluster: Cluster) -> None:
    leader_id = cluster.leader.broker_id
    cluster.world.assign(BUNDLES[1], leader_id)
    cluster.leader.admin.bundle_loads = {
        BUNDLES[1]: (20.0, 3.0 * MIB),
        BUNDLES[3]: (90.0, 1.5 * MIB),
        BUNDLES[0]: (0.0, 0.0),
    }
    result = cluster.run("bundles", "list", "t/ns")
    assert result.exit_code == 0, result.output
    lines = table(result.stdout)
    assert ["bundle", "owner", "token", "msg/s", "MiB/s", "note"] in lines
    in_ring = [
        [str(BUNDLES[0]), "-", "-", "0", "0", "-"],
        [str(BUNDLES[1]), leader_id, "101", "20", "3", "-"],
        [str(BUNDLES[2]), "-", "-", "-", "-", "-"],
        [str(BUNDLES[3]), "-", "-", "90", "1.5", "-"],
    ]
    assert [line for line in lines if line and line[0].startswith("t/ns/")] == in_ring
    by_load = table(cluster.run("bundles", "list", "t/ns", "--sort", "load").stdout)
    expected = [in_ring[number] for number in (1, 3, 0, 2)]
    assert [line for line in by_load if line and line[0].startswith("t/ns/")] == expected


def test_the_load_of_bundles_is_there_for_programs(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.leader.broker_id)
    cluster.leader.admin.bundle_loads = {BUNDLES[1]: (20.0, 3.0 * MIB)}
    first, second, *_ = cluster.json("bundles", "list", "t/ns", "--sort", "load")
    assert first == {
        "bundle": str(BUNDLES[1]),
        "owner": cluster.leader.broker_id,
        "token": 101,
        "note": "",
        "msg_per_s": 20.0,
        "throughput_bytes_per_s": 3.0 * MIB,
    }
    assert second["bundle"] == str(BUNDLES[0])
    assert (second["msg_per_s"], second["throughput_bytes_per_s"]) == (None, None)


def test_bundles_are_listed_where_nobody_leads(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.follower.broker_id)
    cluster.world.leader_id = None
    result = cluster.run("bundles", "list", "t/ns", "--output", "json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["owner"] for row in rows] == [None, cluster.follower.broker_id, None, None]
    assert {row["throughput_bytes_per_s"] for row in rows} == {None}
    assert "the load is unknown: no broker leads at present" in result.stderr


def test_brokers_are_listed_with_what_the_leader_and_the_controller_know(cluster: Cluster) -> None:
    leader_id, follower_id = cluster.leader.broker_id, cluster.follower.broker_id
    cluster.world.controller_id = follower_id
    admin = cluster.leader.admin
    admin.reported[leader_id] = {"version": "1.2.3", "started_ms": 1_795_364_369_884}
    cluster.follower.partition_admin.daemons[2] = leader_id
    result = cluster.run("brokers", "list")
    assert result.exit_code == 0, result.output
    lines = table(result.stdout)
    assert [leader_id, "yes", "2", "1.2.3", "2026-11-22T16:19:29Z", "ready"] in lines
    assert [follower_id, "no", "-", "-", "-", "ready"] in lines
    rows = cluster.json("brokers", "list")
    assert sorted(rows, key=lambda row: not row["leads"]) == [
        {
            "broker": leader_id,
            "leads": True,
            "broker_id": 2,
            "version": "1.2.3",
            "started_ms": 1_795_364_369_884,
            "state": "ready",
        },
        {
            "broker": follower_id,
            "leads": False,
            "broker_id": None,
            "version": None,
            "started_ms": None,
            "state": "ready",
        },
    ]


def test_a_broker_is_drained_once_nothing_is_left_of_it(cluster: Cluster) -> None:
    broker_id, admin = cluster.follower.broker_id, cluster.leader.admin

    def state() -> str:
        rows = cluster.json("brokers", "list")
        return next(str(row["state"]) for row in rows if row["broker"] == broker_id)

    admin.reported[broker_id] = {"is_draining": True, "bundles": 2}
    assert state() == "draining"
    # What is on its way does not count to it any more, and is still there.
    admin.reported[broker_id] = {"is_draining": True, "bundles": 0}
    admin.moves = [{"from": broker_id}]
    assert state() == "draining"
    admin.moves = []
    assert state() == "drained"


def test_a_start_without_a_time_is_not_shown(cluster: Cluster) -> None:
    broker_id = cluster.follower.broker_id
    cluster.leader.admin.reported[broker_id] = {"started_ms": 10**18}
    result = cluster.run("brokers", "list")
    assert [broker_id, "no", "-", "-", "-", "ready"] in table(result.stdout)


def test_brokers_are_listed_where_nobody_leads(cluster: Cluster) -> None:
    cluster.world.leader_id = None
    rows = cluster.json("brokers", "list")
    assert [row["state"] for row in rows] == [None, None]


def test_the_leader_is_shown_to_every_role(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{READER}\n")
    token.chmod(0o600)
    admission = admitting(f"operator:{TOKEN}\nreader:{READER}", ["operator"])
    with running([free_port(), free_port()], ApiRules(CLUSTER, **admission)) as cluster:
        refused = cluster.run("brokers", "list", "--output", "json")
        assert (refused.exit_code, "requires a token" in refused.output) == (1, True)
        shown = cluster.run("brokers", "list", "--output", "json", "--token-file", str(token))
        assert shown.exit_code == 0, shown.output
        rows = json.loads(shown.stdout)
        leads = {row["broker"]: row["leads"] for row in rows}
        assert leads == {cluster.leader.broker_id: True, cluster.follower.broker_id: False}
        assert [row["version"] for row in rows] == [None, None]
        assert "version, start and state are unknown" in shown.stderr
