"""Verbs of a rollout, as an operator types them."""

from collections.abc import Iterator

import pytest

from broker_ctl.core.rollout.order import RolloutScope
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


def test_a_plan_is_json_with_the_refusal(cluster: Cluster, rollouts: MemoryRollouts) -> None:
    row = cluster.json("rollout", "plan")
    assert (row["grace_period_s"], row["moves"], row["refusal"]) == (82, 20, "")
    assert rollouts.asked == [RolloutScope()]


def test_a_broker_that_does_not_lead_sends_the_request_on(cluster: Cluster) -> None:
    # Verbs ask the follower: the plan came from the leader.
    assert cluster.json("rollout", "plan")["leader"] == "b:1"
