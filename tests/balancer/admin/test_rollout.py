"""The plan of a rollout, made by a leader for its own cluster."""

from dataclasses import replace

import pytest

from broker_ctl.core.model.names import Ring
from broker_ctl.core.rollout.forecast import RolloutScope
from broker_ctl.errors import OrderConflict
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.records.partitions import ControllerRecord
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"


@in_virtual_time
async def test_a_broker_that_has_not_reported_is_not_left_out_without_a_word() -> None:
    async with running_cluster(A, B, C) as cluster:
        cluster.clock, cluster.rules = LoopClock(), replace(QUICK, shedding=None)
        await cluster.create_namespace(6)
        async with leading_at(cluster, A) as balancer:
            rollout = balancer.operations.rollout
            await cluster.brokers[A].store.delete(paths.load_report(C))
            term = balancer.term
            assert term is not None
            await eventually(lambda: C not in term.load_monitor.reports)
            with pytest.raises(OrderConflict, match=f"{C} registered, and has not reported"):
                await rollout.forecast(RolloutScope())
            row = await rollout.forecast(RolloutScope((A, B)))
            assert [batch["brokers"] for batch in row["batches"]] == [[B], [A]]


@in_virtual_time
async def test_the_leader_plans_its_own_restart_last_and_that_of_the_controller_before() -> None:
    async with running_cluster(A, B, C) as cluster:
        cluster.clock, cluster.rules = LoopClock(), replace(QUICK, shedding=None)
        await cluster.create_namespace(6)
        for bundle in Ring.even(NAMESPACE, 6).bundles:
            await cluster.brokers[A].acquire(bundle)
        controller = ControllerRecord(3, 1, B, f"http://{B}")
        await cluster.brokers[A].store.create(
            paths.CONTROLLER_ELECTION.node_path, controller.encode(0), make_parents=True
        )
        async with leading_at(cluster, A) as balancer:
            row = await balancer.operations.rollout.forecast(RolloutScope())
            assert [batch["brokers"] for batch in row["batches"]] == [[C], [B], [A]]
            assert (row["leader"], row["controller"]) == (A, B)
            assert [batch["moves"] for batch in row["batches"]] == [0, 0, 6]
            assert (row["refusal"], row["moves_given_back"]) == ("", 2)
            with pytest.raises(OrderConflict, match="z:1"):
                await balancer.operations.rollout.forecast(RolloutScope(("z:1",)))
