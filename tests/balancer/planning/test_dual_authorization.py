"""Plans that another role than the proposer's has to approve."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.errors import DualAuthorizationRequired
from broker_ctl.store import paths
from broker_ctl.store.records.directives import PlanRecord
from broker_ctl.testing.virtual_time import LoopClock, in_virtual_time
from tests.balancer.planning.test_approvals import RING, RULES, A, B, C, the_row, traffic
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at


@asynccontextmanager
async def a_leader(*, is_needed: bool = True) -> AsyncIterator[tuple[LeaderCluster, LoadBalancer]]:
    async with running_cluster(A, B, C, traffic=traffic) as cluster:
        cluster.clock, cluster.rules = LoopClock(), RULES
        cluster.needs_dual_authorization = is_needed
        await cluster.create_namespace(8)
        for bundle in RING.bundles:
            await cluster.brokers[A].acquire(bundle)
        async with leading_at(cluster, B) as balancer:
            yield cluster, balancer


async def proposed(balancer: LoadBalancer, who: str) -> dict[str, Any]:
    plan = await balancer.operations.plan(is_verbose=False, who=who)
    return dict(balancer.operations.proposed_plan(plan["id"]))


@in_virtual_time
async def test_who_proposed_a_plan_cannot_approve_it_and_another_role_can() -> None:
    async with a_leader() as (cluster, balancer):
        plan = await proposed(balancer, "anna")
        assert plan["proposed_by"] == "anna"
        # Also a review by another role changes nothing about that.
        assert (await proposed(balancer, "bert"))["proposed_by"] == "anna"
        with pytest.raises(DualAuthorizationRequired, match="anna has proposed this plan"):
            await balancer.operations.approve(plan["id"], "anna", "")
        with pytest.raises(DualAuthorizationRequired):
            await balancer.operations.approve(plan["id"], "anna", "", is_dry_run=True)
        assert await balancer.operations.plans() == []
        row = await balancer.operations.approve(plan["id"], "bert", "looks right")
        assert (row["proposed_by"], row["by"]) == ("anna", "bert")
        node = await cluster.brokers[A].store.get(paths.plan(plan["id"]))
        assert node is not None
        record = PlanRecord.decode(node.path, node.data)
        assert (record.proposed_by, record.order.who) == ("anna", "bert")
        assert (await the_row(balancer))["proposed_by"] == "anna"


@in_virtual_time
async def test_a_plan_that_only_a_viewer_has_seen_has_no_proposer() -> None:
    async with a_leader() as (_, balancer):
        plan = await proposed(balancer, "")
        with pytest.raises(DualAuthorizationRequired, match="nobody who may propose plans"):
            await balancer.operations.approve(plan["id"], "bert", "")


@in_virtual_time
async def test_without_the_setting_one_role_proposes_and_approves() -> None:
    async with a_leader(is_needed=False) as (_, balancer):
        plan = await proposed(balancer, "anna")
        row = await balancer.operations.approve(plan["id"], "anna", "")
        assert (row["proposed_by"], row["by"]) == ("anna", "anna")
