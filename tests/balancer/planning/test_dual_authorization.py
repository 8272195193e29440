"""Plans that another role than the proposer's has to approve."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.errors import DualAuthorizationRequired, OrderConflict
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.records.directives import PlanRecord
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


async def shown(balancer: LoadBalancer) -> tuple[str, str]:
    """Id and digest of a plan that is looked at."""
    plan = await balancer.operations.plan(is_verbose=False)
    row = balancer.operations.proposals.plan(plan["id"])
    assert row["digest"] == plan["digest"]
    return plan["id"], plan["digest"]


@in_virtual_time
async def test_who_proposed_a_plan_cannot_approve_it_and_another_role_can() -> None:
    async with a_leader() as (cluster, balancer):
        operations = balancer.operations
        plan, digest = await shown(balancer)
        assert (await operations.proposals.propose(plan, "anna", ""))["proposed_by"] == "anna"
        # A look of another role changes nothing about that.
        assert await shown(balancer) == (plan, digest)
        assert operations.proposals.plan(plan)["proposed_by"] == "anna"
        with pytest.raises(DualAuthorizationRequired, match="anna has proposed plan"):
            await operations.approve(plan, "anna", "", digest)
        with pytest.raises(DualAuthorizationRequired):
            await operations.approve(plan, "anna", "", digest, is_dry_run=True)
        assert await operations.plans() == []
        row = await operations.approve(plan, "bert", "looks right", digest)
        assert (row["proposed_by"], row["by"]) == ("anna", "bert")
        assert operations.proposals.open() == []
        node = await cluster.brokers[A].store.get(paths.plan(plan))
        assert node is not None
        record = PlanRecord.decode(node.path, node.data)
        assert (record.proposed_by, record.order.who) == ("anna", "bert")
        assert (await the_row(balancer))["proposed_by"] == "anna"


@in_virtual_time
async def test_a_plan_that_everybody_has_seen_was_proposed_by_nobody() -> None:
    async with a_leader() as (_, balancer):
        for _ in ("anna", "bert", "a viewer"):
            plan, digest = await shown(balancer)
        for who in ("anna", "bert"):
            with pytest.raises(DualAuthorizationRequired, match="nobody has proposed plan"):
                await balancer.operations.approve(plan, who, "", digest)
        assert balancer.operations.proposals.open() == []


@in_virtual_time
async def test_an_approval_names_what_was_seen() -> None:
    async with a_leader() as (_, balancer):
        plan, digest = await shown(balancer)
        await balancer.operations.proposals.propose(plan, "anna", "")
        for wrong, says in (("", "has to name the digest"), ("0" * 64, "is not the one")):
            with pytest.raises(OrderConflict, match=says):
                await balancer.operations.approve(plan, "bert", "", wrong)
        assert await balancer.operations.plans() == []
        await balancer.operations.approve(plan, "bert", "", digest, is_dry_run=True)
        # A dry run approves nothing, and ends no proposal.
        assert len(balancer.operations.proposals.open()) == 1


@in_virtual_time
async def test_without_the_setting_one_role_proposes_and_approves() -> None:
    async with a_leader(is_needed=False) as (_, balancer):
        plan, _ = await shown(balancer)
        row = await balancer.operations.approve(plan, "anna", "")
        assert (row["proposed_by"], row["by"]) == ("anna", "anna")
