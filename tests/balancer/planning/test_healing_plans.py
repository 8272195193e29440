"""A plan that moves bundles off brokers that their isolation policies do not allow."""

from dataclasses import replace

from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.names import Ring
from broker_ctl.lab.time import LoopClock, in_virtual_time
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"
RING = Ring.even(NAMESPACE, 8)
POLICY = IsolationPolicy("gold", (str(NAMESPACE),), ("b", "c"))


@in_virtual_time
async def test_an_approved_plan_heals_a_policy_that_was_set_after_the_placement() -> None:
    async with running_cluster(A, B, C) as cluster:
        cluster.clock, cluster.rules = LoopClock(), replace(QUICK, is_dry_run=True)
        await cluster.create_namespace(8)
        for bundle in RING.bundles:
            await cluster.brokers[A if bundle in RING.bundles[:6] else B].acquire(bundle)
        async with leading_at(cluster, B) as balancer:
            assert balancer.overview()["misplaced_bundles"] == 0
            assert (await balancer.operations.healing_plan(is_verbose=False))["decisions"] == []
            cluster.constraints = Constraints((POLICY,))
            plan = await balancer.operations.healing_plan(is_verbose=True)
            # All at once, whatever may be in flight at a time.
            assert {row["bundle"] for row in plan["decisions"]} == set(map(str, RING.bundles[:6]))
            assert {row["reason"] for row in plan["decisions"]} == {"isolation"}
            seen = balancer.overview()
            assert seen["misplaced_bundles"] == 6
            assert {row["owner"] for row in seen["misplaced"]} == {A}
            await balancer.operations.approve(plan["id"], "me", "a new policy")
            await eventually(lambda: not cluster.brokers[A].serving, deadline_s=120.0)
            healed = await balancer.operations.healing_plan(is_verbose=False)
            assert healed["decisions"] == []
            assert balancer.overview()["misplaced_bundles"] == 0
    assert len(cluster.brokers[B].serving) + len(cluster.brokers[C].serving) == 8
