"""Proposals of plans, which other operators approve."""

from typing import Any

from broker_ctl.balancer.admin.in_term import RunInTerm
from broker_ctl.balancer.planning.drain_admission import require_executable
from broker_ctl.balancer.planning.proposed_plans import ProposedPlans
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.model.commands import Reply


class ProposalOperations:
    """What waits for an approval in one term; answers are plain JSON values."""

    def __init__(
        self, term: LeaderTerm, proposed_plans: ProposedPlans, run_in_term: RunInTerm
    ) -> None:
        self._dependencies = term.dependencies
        self._proposed_plans = proposed_plans
        self._run_in_term = run_in_term

    def plan(self, plan_id: str) -> Reply:
        """A plan that may be approved, as it was shown; with ``proposed_by`` if it was proposed.

        Raises:
            PlanMissing: the plan was neither shown nor proposed, or has expired.
        """
        now_s = self._dependencies.clock.now_s()
        proposal = self._proposed_plans.proposal(plan_id, now_s)
        if proposal is not None:
            return proposal.to_row()
        return {**self._proposed_plans.find(plan_id, now_s).row, "proposed_by": ""}

    def open(self) -> list[dict[str, Any]]:
        """The proposals that wait for an approval, the oldest first."""
        now_s = self._dependencies.clock.now_s()
        return [one.to_row() for one in self._proposed_plans.proposals(now_s)]

    async def propose(self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False) -> Reply:
        """Put a plan that was shown up for approval.

        Raises:
            PlanMissing: the plan was not shown, or has expired.
            OrderConflict: it is empty, or proposed by another, or too many proposals are open.
            NoLeader: this broker does not lead (any more).
        """
        clock = self._dependencies.clock
        order = AuditInfo.of(clock.wall_ms(), who, why)

        async def propose(term: LeaderTerm) -> Reply:
            await require_executable(term)
            plans = self._proposed_plans
            return plans.propose(plan_id, order, clock.now_s(), is_dry_run=is_dry_run).to_row()

        return await self._run_in_term(propose, f"propose plan {plan_id}")
