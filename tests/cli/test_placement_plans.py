"""``broker-ctl plan --from``, as an operator types it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.core.cluster.plan_file import HOLDS_MS, PlanFile, PlannedMove
from broker_ctl.errors import OrderConflict
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import CLUSTER
from tests.support.clusters.memory_operations import BUNDLE, MemoryOperations
from tests.support.http.web_server import free_port

PLAN = "0123456789ab"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


@pytest.fixture
def operations(cluster: Cluster) -> MemoryOperations:
    return cluster.leader.admin.operations


@pytest.fixture
def plan() -> PlanFile:
    moves = (PlannedMove(BUNDLE, "a:1", "b:1", 1.0),)
    return PlanFile(CLUSTER, 0, 0, 0, moves, (2.0,), (1.0,))


def test_a_plan_of_a_file_is_shown_and_carried_out(
    cluster: Cluster, operations: MemoryOperations, plan: PlanFile, tmp_path: Path
) -> None:
    plan = replace(plan, to_ms=SystemClock().wall_ms() - 1)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_row()))
    shown = cluster.run("plan", "--from", str(path))
    assert shown.exit_code == 0, shown.output
    assert operations.asked == [("plan_of_file", plan)]
    assert "5 % above the mean" in shown.stdout
    assert f"broker-ctl plan --approve {PLAN}" in shown.stdout
    done = cluster.run("plan", "--from", str(path), "--approve", "--wait", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"plan {PLAN} is done: 2 done"


def test_a_file_that_is_of_no_use_is_refused_with_the_reason(
    cluster: Cluster, operations: MemoryOperations, plan: PlanFile, tmp_path: Path
) -> None:
    now_ms = SystemClock().wall_ms()
    path = tmp_path / "plan.json"

    def refusal(text: str) -> str:
        path.write_text(text)
        result = cluster.run("plan", "--from", str(path))
        assert result.exit_code == 1
        assert not operations.asked
        return result.stderr

    assert "plan.json" in refusal("{")
    assert "not a plan" in refusal("[]")
    assert "format" in refusal("{}")
    fresh = replace(plan, to_ms=now_ms - 1)
    assert "hash" in refusal(json.dumps(fresh.to_row() | {"hash": "0"}))
    assert "cluster elsewhere" in refusal(json.dumps(replace(fresh, cluster="elsewhere").to_row()))
    old = replace(plan, to_ms=now_ms - HOLDS_MS)
    assert "make a new one (409)" in refusal(json.dumps(old.to_row()))
    operations.refuse = OrderConflict("another one is carried out")
    assert "another one" in refusal(json.dumps(fresh.to_row()))


def test_a_file_and_the_id_of_a_plan_are_one_too_many(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("{}")
    assert cluster.run("plan", "--from", str(path), "--approve", PLAN).exit_code == 2
    assert cluster.run("plan", "--from", str(path), "--progress").exit_code == 2
