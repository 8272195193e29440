"""The id of a plan, the plans that were shown, and the history of decisions."""

from dataclasses import replace

import pytest

from broker_ctl.balancer.admin.operations import HistoryFilter
from broker_ctl.balancer.planning.proposed_plans import ProposedPlan, ProposedPlans, plan_id_of
from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer
from broker_ctl.core.cluster.imbalance import Imbalance
from broker_ctl.core.history.journal import JournalEntry, Outcome
from broker_ctl.core.model.load_vector import NO_LOAD
from broker_ctl.core.model.namespace import Ring
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import PlanMissing
from broker_ctl.testing.virtual_time import LoopClock, in_virtual_time
from tests.support.clusters.leader_cluster import NAMESPACE, running_cluster
from tests.support.clusters.leading_balancers import leading_at

A, B, C = "a:8080", "b:8080", "c:8080"
FIRST, SECOND = Ring.even(NAMESPACE, 8).bundles[:2]
EVEN = Imbalance(1.0, 1.0)
NONE = NO_LOAD
MOVE = Transfer(FIRST, A, B, Reason.OVERLOADED, "why", NONE, NONE, NONE)
PLAN = Plan(7, (MOVE,), (), EVEN, EVEN)


def test_the_id_of_a_plan_says_what_it_does_and_for_whom() -> None:
    skip = Skip("cluster", Reason.BELOW_THRESHOLD, "")
    assert plan_id_of(PLAN) == plan_id_of(replace(PLAN, skipped=(skip,)))
    others = [
        replace(PLAN, epoch=8),
        replace(PLAN, decisions=()),
        replace(PLAN, decisions=(replace(MOVE, destination=C),)),
    ]
    assert len({plan_id_of(each) for each in [PLAN, *others]}) == 4
    assert len(plan_id_of(PLAN)) == 12


def proposal(who: str = "", at_s: float = 100.0, in_force_until_ms: int = 0) -> ProposedPlan:
    return ProposedPlan((MOVE,), at_s, {}, who, in_force_until_ms)


def test_of_the_plans_that_were_shown_the_oldest_are_forgotten() -> None:
    shown = ProposedPlans()
    for number in range(17):
        shown.add(f"plan {number}", proposal())
    assert shown.find("plan 16", 700.0).decisions == (MOVE,)
    with pytest.raises(PlanMissing):
        shown.find("plan 0", 100.0)
    with pytest.raises(PlanMissing):
        shown.find("plan 16", 700.1)


def test_a_plan_keeps_its_proposer_while_others_review_it() -> None:
    shown = ProposedPlans()
    for who, at_s in (("", 100.0), ("anna", 200.0), ("bert", 300.0), ("", 400.0)):
        shown.add("p", proposal(who, at_s))
    assert shown.find("p", 1000.0).who == "anna"
    # After its expiry another role may propose it.
    shown.add("p", proposal("bert", 1000.1))
    assert shown.find("p", 1000.1).who == "bert"


def test_the_same_decisions_that_stay_in_force_are_another_proposal() -> None:
    shown = ProposedPlans()
    shown.add("p", proposal("anna", 100.0))
    shown.add("p", proposal("bert", 100.0, in_force_until_ms=5))
    shown.add("p", proposal("carl", 100.0, in_force_until_ms=6))
    assert (shown.find("p", 100.0).who, shown.find("p", 100.0).in_force_until_ms) == ("bert", 6)


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
            assert found(HistoryFilter(within_s=250.0)) == everything[:2]
            assert found(HistoryFilter(within_s=1.0)) == []
