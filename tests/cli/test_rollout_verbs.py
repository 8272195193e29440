"""Verbs of a rollout, as an operator types them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_ctl.core.rollout.forecast import RolloutScope
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.memory_rollouts import MemoryRollouts
from tests.support.http.web_server import free_port


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as cluster:
        yield cluster


@pytest.fixture
def cluster(served: Cluster) -> Cluster:
    served.leader.admin.operations.rollout = MemoryRollouts()
    return served


@pytest.fixture
def rollouts(cluster: Cluster) -> MemoryRollouts:
    found = cluster.leader.admin.operations.rollout
    assert isinstance(found, MemoryRollouts)
    return found


def test_a_plan_shows_order_moves_and_the_grace_period(
    cluster: Cluster, rollouts: MemoryRollouts
) -> None:
    result = cluster.run("rollout", "plan", "--canary", "b:1", "--brokers", "a:1, c:1")
    assert result.exit_code == 0, result.output
    assert "a:1" in result.stdout
    assert "20 moves, of which 4 fill the last brokers again; at least 18 are necessary" in (
        result.stdout
    )
    # 12 s of drain, 60 s of shutdown, 10 s to spare.
    assert "terminationGracePeriodSeconds: 82 or TimeoutStopSec=82 for a drain" in result.stdout
    assert rollouts.asked == [RolloutScope(("a:1", "c:1"), canary="b:1")]


def test_a_plan_that_would_overload_the_rest_fails_unless_that_is_accepted(
    cluster: Cluster, rollouts: MemoryRollouts
) -> None:
    rollouts.refusal = "while a:1 restarts, b:1 would have to carry 96.0%"
    refused = cluster.run("rollout", "plan", "--max-unavailable", "zone")
    assert refused.exit_code == 1
    assert "would have to carry 96.0%; --accept-overload accepts it" in refused.stderr
    assert rollouts.asked == [RolloutScope(per_domain=True)]
    assert cluster.run("rollout", "plan", "--accept-overload").exit_code == 0


def test_a_plan_shows_the_command_of_each_broker_and_runs_none(
    cluster: Cluster, rollouts: MemoryRollouts, tmp_path: Path
) -> None:
    command = f"touch {tmp_path}/{{port}} 'a b'"
    result = cluster.run("rollout", "plan", "--restart-command", command)
    assert f"b:1: touch {tmp_path}/1 'a b'" in result.stdout
    assert list(tmp_path.iterdir()) == []
    assert rollouts.begun == []
    broken = cluster.run("rollout", "plan", "--restart-command", "'")
    assert broken.exit_code == 2


def test_a_plan_is_json_with_the_refusal(cluster: Cluster, rollouts: MemoryRollouts) -> None:
    row = cluster.json("rollout", "plan")
    assert (row["grace_period_s"], row["moves"], row["refusal"]) == (82, 20, "")
    assert rollouts.asked == [RolloutScope()]


def test_a_broker_that_does_not_lead_sends_the_request_on(cluster: Cluster) -> None:
    # Verbs ask the follower: the plan came from the leader.
    assert cluster.json("rollout", "plan")["leader"] == "b:1"


# Runs.


def test_a_run_restarts_the_brokers_that_wait_for_it(
    cluster: Cluster, rollouts: MemoryRollouts, tmp_path: Path
) -> None:
    rollouts.has_restarts = True
    made = tmp_path / "a:1 a 1"
    command = f"touch '{tmp_path}/{{broker}} {{host}} {{port}}'"
    row = cluster.json("rollout", "run", "--restart-command", command, "--reason", "up", "--yes")
    assert (row["result"], row["rollout"]["state"]) == ("done", "done")
    assert made.exists()
    assert rollouts.said == [("restart_began", "a:1", ""), ("restarted", "a:1", "")]
    assert rollouts.begun[0].why == "up"


def test_a_command_that_fails_stops_the_rollout_with_what_it_said(
    cluster: Cluster, rollouts: MemoryRollouts
) -> None:
    rollouts.has_restarts = True
    command = "sh -c 'echo no such unit >&2; exit 3'"
    result = cluster.run("rollout", "run", "--restart-command", command, "--yes")
    assert result.exit_code == 1
    assert rollouts.said[1] == ("failed", "a:1", "sh ended with exit code 3: no such unit")
    assert "rollout r1 is stopped: a:1: exit code 3" in result.stderr


def test_a_command_that_hangs_is_killed(cluster: Cluster, rollouts: MemoryRollouts) -> None:
    rollouts.has_restarts = True
    words = ("rollout", "run", "--restart-command", "sleep 60", "--restart-timeout", "1", "--yes")
    assert cluster.run(*words).exit_code == 1
    assert rollouts.said[1] == ("failed", "a:1", "sleep took more than 1 s")


def test_a_command_that_is_not_there_is_named(cluster: Cluster, rollouts: MemoryRollouts) -> None:
    rollouts.has_restarts = True
    assert cluster.run("rollout", "run", "--restart-command", "no-such", "--yes").exit_code == 1
    assert rollouts.said[1][2] == "no-such cannot be run: No such file or directory"


def test_a_run_needs_exactly_one_way_to_restart(cluster: Cluster, rollouts: MemoryRollouts) -> None:
    assert cluster.run("rollout", "run", "--yes").exit_code == 2
    both = ("--restart-command", "true", "--systemd", "x")
    assert cluster.run("rollout", "run", *both, "--yes").exit_code == 2
    assert cluster.run("rollout", "run", "--restart-command", "'", "--yes").exit_code == 2
    assert rollouts.begun == []


def test_a_run_asks_with_the_moves_and_the_load(cluster: Cluster, rollouts: MemoryRollouts) -> None:
    words = ("rollout", "run", "--restart-command", "true")
    asked = cluster.run(*words, stdin="n\n")
    assert asked.exit_code == 1
    assert "Restart 2 brokers in 2 steps with 20 moves (at least 18)" in asked.stderr
    assert rollouts.begun == []


def test_status_pause_and_abort_show_the_rollout(
    cluster: Cluster, rollouts: MemoryRollouts
) -> None:
    assert "no rollout has begun" in cluster.run("rollout", "status").stderr
    rollouts.has_restarts = True
    rollouts.states = {"a:1": "empty", "b:1": "waiting"}
    shown = cluster.run("rollout", "status").stdout
    assert "rollout r1 is running; 0 of 2 restarted, 20 moves, at least 18" in shown
    assert cluster.json("rollout", "pause", "--reason", "peak", "--yes")["result"] == "paused"
    assert cluster.json("rollout", "abort", "--yes")["rollout"]["state"] == "aborted"
    assert [said[0] for said in rollouts.said] == ["pause", "abort"]
    assert cluster.json("rollout", "status", "--wait")["state"] == "aborted"


def test_a_rollback_ends_the_rollout_and_restarts_what_has_restarted(
    cluster: Cluster, rollouts: MemoryRollouts
) -> None:
    words = ("rollout", "rollback", "--restart-command", "true", "--yes")
    rollouts.states = {"a:1": "waiting", "b:1": "waiting"}
    assert "has restarted no broker" in cluster.run(*words).stderr
    rollouts.states, rollouts.state = {"a:1": "failed", "b:1": "waiting"}, "stopped"
    row = cluster.json(*words, "--reason", "bad release")
    assert row["result"] == "done"
    assert rollouts.said[0][0] == "abort"
    assert rollouts.begun[0].scope == RolloutScope(("a:1",))
    assert rollouts.begun[0].why == "bad release"
