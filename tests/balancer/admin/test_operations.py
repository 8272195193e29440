"""The id of a plan, the plans that were shown, and the history of decisions."""

from dataclasses import replace

import pytest

from broker_ctl.balancer.admin.operations import HistoryFilter
from broker_ctl.balancer.planning.approvals import ProposedPlans, ShownPlan, digest_of
from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.cluster.imbalance import Imbalance
from broker_ctl.core.history.rows import JournalEntry, Outcome
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Ring
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import OrderConflict, PlanMissing
from broker_ctl.lab.time import LoopClock, in_virtual_time
from tests.support.clusters.leader_cluster import NAMESPACE, running_cluster
from tests.support.clusters.leading_balancers import leading_at

A, B, C = "a:8080", "b:8080", "c:8080"
FIRST, SECOND = Ring.even(NAMESPACE, 8).bundles[:2]
EVEN = Imbalance(1.0, 1.0)
NONE = NO_LOAD
MOVE = Transfer(FIRST, A, B, Reason.OVERLOADED, "why", NONE, NONE, NONE)
PLAN = Plan(7, (MOVE,), (), EVEN, EVEN)


def test_the_digest_of_a_plan_says_what_it_does_and_for_whom() -> None:
    skip = Skip("cluster", Reason.BELOW_THRESHOLD, "")
    assert digest_of(PLAN) == digest_of(replace(PLAN, skipped=(skip,)))
    others = [
        replace(PLAN, epoch=8),
        replace(PLAN, decisions=()),
        replace(PLAN, decisions=(replace(MOVE, destination=C),)),
    ]
    digests = {digest_of(PLAN, stays_in_force=True), *map(digest_of, [PLAN, *others])}
    assert len(digests) == 5
    assert {len(each) for each in digests} == {64}


def plan_of(number: int, at_s: float = 100.0) -> ShownPlan:
    return ShownPlan(f"{number:012}{'0' * 52}", (MOVE,), at_s, {"number": number})


def id_of(number: int) -> str:
    return f"{number:012}"


def by(who: str) -> AuditInfo:
    return AuditInfo(1_000, who, "sale")


def test_of_the_plans_that_were_shown_the_oldest_are_forgotten() -> None:
    plans = ProposedPlans()
    for number in range(17):
        plans.show(plan_of(number))
    assert plans.find(id_of(16), 700.0).decisions == (MOVE,)
    with pytest.raises(PlanMissing):
        plans.find(id_of(0), 100.0)
    with pytest.raises(PlanMissing):
        plans.find(id_of(16), 700.1)


def test_a_look_changes_nothing_of_a_proposal() -> None:
    plans = ProposedPlans()
    plans.show(plan_of(1))
    proposed = plans.propose(id_of(1), by("anna"), 200.0)
    # The same id with other contents, as often as a reader likes, and many more plans.
    for number in (1, *range(2, 40)):
        plans.show(replace(plan_of(number), digest=f"{number:012}{'f' * 52}", decisions=()))
    assert plans.proposals(799.9) == [proposed]
    assert plans.find(id_of(1), 799.9) is proposed.plan
    assert proposed.to_row() == {
        "number": 1,
        "proposed_by": "anna",
        "proposed_ms": 1_000,
        "proposal_reason": "sale",
        "expires_ms": 601_000,
    }


def test_a_proposal_ends_and_then_another_role_may_make_one() -> None:
    plans = ProposedPlans()
    plans.show(plan_of(1))
    first = plans.propose(id_of(1), by("anna"), 200.0)
    assert plans.propose(id_of(1), by("anna"), 300.0) is first
    with pytest.raises(OrderConflict, match="anna has proposed plan"):
        plans.propose(id_of(1), by("bert"), 799.9)
    plans.show(plan_of(1, at_s=800.0))
    assert plans.proposals(800.0) == []
    assert plans.propose(id_of(1), by("bert"), 800.0).order.who == "bert"


def test_a_dry_run_proposes_nothing_and_an_empty_plan_cannot_be_proposed() -> None:
    plans = ProposedPlans()
    plans.show(plan_of(1))
    assert plans.propose(id_of(1), by("anna"), 100.0, is_dry_run=True).order.who == "anna"
    assert plans.proposals(100.0) == []
    plans.show(replace(plan_of(2), decisions=()))
    with pytest.raises(OrderConflict, match="is empty"):
        plans.propose(id_of(2), by("anna"), 100.0)
    with pytest.raises(PlanMissing):
        plans.propose(id_of(3), by("anna"), 100.0)


def test_the_proposals_of_one_role_leave_room_for_others() -> None:
    plans = ProposedPlans()
    for number in range(5):
        plans.show(plan_of(number))
    for number in range(4):
        plans.propose(id_of(number), by("anna"), 100.0)
    with pytest.raises(OrderConflict, match="4 proposals of anna and 4 in all"):
        plans.propose(id_of(4), by("anna"), 100.0)
    assert plans.propose(id_of(4), by("bert"), 100.0).order.who == "bert"
    plans.close(id_of(0))
    assert len(plans.proposals(100.0)) == 4


@in_virtual_time
async def test_history_is_the_newest_of_what_is_asked_for() -> None:
    async with running_cluster(A, B) as cluster:
        cluster.clock = LoopClock()
        await cluster.create_namespace(8)
        async with leading_at(cluster, A) as balancer:
            now_ms = cluster.clock.wall_ms()
            other = replace(MOVE, bundle=SECOND, destination=C)
            skip = Skip(str(FIRST), Reason.COOLING_DOWN, "it moved 5 s ago")
            for age_s, decision in ((300, MOVE), (200, other), (100, skip)):
                at_ms = now_ms - age_s * 1000
                cluster.journal.record(JournalEntry(at_ms, 1, 2, decision, Outcome("done")))

            def found(wanted: HistoryFilter) -> list[str]:
                return [row["sentence"] for row in balancer.operations.history(wanted)]

            everything = [skip.sentence, other.sentence, MOVE.sentence]
            assert found(HistoryFilter()) == everything
            assert found(HistoryFilter(limit=2)) == everything[:2]
            assert found(HistoryFilter(result="failed")) == []
            assert len(found(HistoryFilter(result="done"))) == 3
            assert found(HistoryFilter(kind="transfer")) == everything[1:]
            assert found(HistoryFilter(bundle=str(FIRST))) == [skip.sentence, MOVE.sentence]
            assert found(HistoryFilter(broker=C)) == [other.sentence]
            assert found(HistoryFilter(broker=A, bundle=str(SECOND))) == [other.sentence]
            old_ms, new_ms = now_ms - 250_000, now_ms - 150_000
            assert found(HistoryFilter(since_ms=old_ms)) == everything[:2]
            assert found(HistoryFilter(until_ms=new_ms)) == everything[1:]
            assert found(HistoryFilter(since_ms=old_ms, until_ms=new_ms)) == [other.sentence]
            assert found(HistoryFilter(since_ms=now_ms)) == []
