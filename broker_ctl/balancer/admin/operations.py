"""Operations on the balancing as a whole: plans and proposals, drains, recent decisions."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, Final

from broker_ctl.balancer.admin.manual_actions import RunInTerm
from broker_ctl.balancer.admin.rollout import RolloutOperations
from broker_ctl.balancer.context.decisions import subjects_of
from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.planning.approvals import ID_DIGITS, ProposedPlans, ShownPlan, digest_of
from broker_ctl.balancer.planning.cycle import Cycle
from broker_ctl.balancer.planning.directives import require_executable
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Decision, Transfer
from broker_ctl.core.cluster.directives import AuditInfo, DrainTerms, MaintenanceWindow
from broker_ctl.core.cluster.plan_file import HOLDS_MS, PlanFile
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.planning.decide import plan_proposals
from broker_ctl.core.planning.plan import Plan
from broker_ctl.core.strategies.placement.pipeline import healing_proposals, misplaced_bundles
from broker_ctl.errors import OrderConflict

# Proposals of plans, which other operators approve.


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


# Operations on the balancing as a whole: plans, drains, recent decisions.


_MAX_SEARCHED: Final = 1000
NOW: Final = DrainTerms()


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """A filter for decisions, ``result`` an `Outcome.result`; None matches everything.

    Attributes:
        kind: of the decision: ``transfer``, ``split`` and so on.
        broker: a broker that the decision is about.
        bundle: a bundle that the decision is about.
        since_ms, until_ms: first and last moment, in ms since 1970.
        limit: maximum number of decisions; the newest are returned.
    """

    kind: str | None = None
    broker: str | None = None
    bundle: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 100
    result: str | None = None


class BalancerOperations:
    """Plans, drains and the history of decisions, in one term; answers are plain JSON values.

    Attributes:
        proposals: plans that wait for an approval.
        rollout: restarts of the brokers, one after the other.
    """

    def __init__(
        self, term: LeaderTerm, cycle: Cycle, proposed_plans: ProposedPlans, run_in_term: RunInTerm
    ) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._cycle = cycle
        self._directive_runner = cycle.directive_runner
        self._proposed_plans = proposed_plans
        self._run_in_term = run_in_term
        self.proposals = ProposalOperations(term, proposed_plans, run_in_term)
        runner = cycle.directive_runner
        self.rollout = RolloutOperations(term, runner.rollout, runner.wake, run_in_term)

    # Plans.

    async def plan(self, *, is_verbose: bool) -> Reply:
        """The plan of the next cycle and its effect; nothing is done, and nothing proposed.

        Raises:
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """
        rules = self._directive_runner.approvals.adjusted(self._dependencies.rules())
        plan = await self._run_in_term(lambda _: self._cycle.preview(rules), "plan")
        return self._offer(plan, rules, is_verbose=is_verbose)

    async def healing_plan(self, *, is_verbose: bool) -> Reply:
        """Moves of every bundle away from a broker that its isolation policy does not allow.

        Raises:
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """
        rules = self._dependencies.rules()

        def heal(view: ClusterView) -> Sequence[Decision]:
            return healing_proposals(view, misplaced_bundles(view, rules.placement_rules))

        plan = await self._plan_permitted(heal, rules)
        return self._offer(plan, rules, is_verbose=is_verbose)

    async def plan_of_file(self, file: PlanFile) -> Reply:
        """The part of a placement plan that can be done now; in force once approved.

        Raises:
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """
        rules = self._dependencies.rules()
        plan = await self._plan_permitted(lambda _: file.proposals, rules)
        until_ms = self._dependencies.clock.wall_ms() + HOLDS_MS
        row = self._offer(plan, rules, is_verbose=True, in_force_until_ms=until_ms)
        return {**row, "hash": file.hash, "before": file.before, "after": file.after}

    async def _plan_permitted(
        self, propose: Callable[[ClusterView], Iterable[Decision]], rules: LeaderRules
    ) -> Plan:
        """Plan what is permitted of proposals; limits per batch apply once it is carried out."""
        unlimited = _without_budgets(rules)

        async def plan(term: LeaderTerm) -> Plan:
            await term.leadership.wait_deciding()
            view = await term.snapshot_builder.build()
            run = self._dependencies.planner.run
            return await run(lambda: plan_proposals(view, propose(view), unlimited))

        return await self._run_in_term(plan, "plan what is permitted")

    def _offer(
        self,
        plan: Plan,
        rules: LeaderRules,
        *,
        is_verbose: bool,
        in_force_until_ms: int = 0,
    ) -> dict[str, Any]:
        """Keep a plan by its id, and render it."""
        digest = digest_of(plan, stays_in_force=in_force_until_ms > 0)
        is_paused = self._dependencies.directives.pause is not None
        row, view = plan.to_row(), self._term.snapshot_builder.latest
        skipped = row.pop("skipped")
        shown = {
            "id": digest[:ID_DIGITS],
            "digest": digest,
            "taken_at_ms": 0 if view is None else view.taken_at_ms,
            "held_back": "paused" if is_paused else "dry_run" if rules.is_dry_run else "",
            **row,
            **_moved_load(plan, view),
            "skipped_by_reason": Counter(skip.reason.value for skip in plan.skipped),
        }
        now_s = self._dependencies.clock.now_s()
        kept = ShownPlan(digest, plan.decisions, now_s, shown, in_force_until_ms)
        self._proposed_plans.show(kept)
        return {**shown, **({"skipped": skipped} if is_verbose else {})}

    async def approve(
        self, plan_id: str, who: str, why: str, digest: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Execute a plan that was shown or proposed; see `ProposedPlans.to_approve`.

        Raises:
            PlanMissing, OrderConflict: the plan is unknown or expired; empty, or another is open;
                or it is not the one that was seen.
            DualAuthorizationRequired: another role has to approve it.
            StoreError: the change was not written.
            NoLeader: this broker does not lead (any more).
        """
        approvals = self._directive_runner.approvals
        order = AuditInfo.of(self._dependencies.clock.wall_ms(), who, why)

        async def approve(term: LeaderTerm) -> Reply:
            await require_executable(term)
            if (known := await approvals.find(plan_id)) is not None and known.is_open:
                return known.to_row()
            plan, proposer = self._proposed_plans.to_approve(
                plan_id,
                who,
                digest,
                self._dependencies.clock.now_s(),
                needs_second=self._dependencies.needs_dual_authorization,
            )
            approved = await approvals.approve(
                plan_id,
                plan.decisions,
                order,
                in_force_until_ms=plan.in_force_until_ms,
                proposed_by=proposer,
                is_dry_run=is_dry_run,
            )
            if not is_dry_run:
                self._proposed_plans.close(plan_id)
            return approved.to_row()

        row = await self._run_in_term(approve, f"approve plan {plan_id}")
        if not is_dry_run:
            self._directive_runner.wake()
        return row

    async def plans(self) -> list[dict[str, Any]]:
        """The plan in execution, or the last one.

        Raises:
            StoreError: the plans could not be read.
            NoLeader: this broker does not lead (any more).
        """
        return await self._run_in_term(lambda _: self._directive_runner.approvals.rows(), "plans")

    async def stop_plan(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Reply:
        """Stop an approved plan; moves in flight still end.

        Raises:
            PlanMissing, OrderConflict: no such plan was approved; it has ended.
            StoreError: the change was not written.
            NoLeader: this broker does not lead (any more).
        """
        note = f"stopped by {who or 'an operator'}" + (f": {why}" if why else "")
        approvals = self._directive_runner.approvals
        stopped = await self._run_in_term(
            lambda _: approvals.stop(plan_id, note, is_dry_run=is_dry_run), f"stop plan {plan_id}"
        )
        return stopped.to_row()

    # Drains.

    def drains(self) -> list[dict[str, Any]]:
        """Progress of each drain, then those that are scheduled."""
        runner = self._directive_runner
        return [*runner.drains.rows(), *runner.maintenance.rows()]

    async def drain(
        self,
        broker_id: str,
        who: str,
        why: str,
        terms: DrainTerms = NOW,
        *,
        is_dry_run: bool = False,
    ) -> Reply:
        """Drain a broker: it receives nothing and is emptied; returns the progress.

        A dry run writes nothing, and returns the `DrainForecast`. A broker that is drained already
        is only reported. A drain that begins later replaces an earlier one of the broker.

        Raises:
            OrderConflict: no other broker could receive, or the others lack capacity; or the drain
                would be over before it begins.
            StoreError: the change was not written.
            NoLeader: this broker does not lead (any more).
        """
        directives, runner = self._dependencies.directives, self._directive_runner
        now_ms = self._dependencies.clock.wall_ms()
        order = AuditInfo.of(now_ms, who, why)
        if 0 < terms.ends_ms <= max(now_ms, terms.begins_ms):
            raise OrderConflict(f"the drain of {broker_id} would be over before it begins")

        async def schedule(_: LeaderTerm) -> Reply:
            runner.admission.check_broker(broker_id)
            window = MaintenanceWindow(order, terms)
            if not is_dry_run:
                window = await directives.schedule(broker_id, window)
            return runner.maintenance.row(broker_id, window)

        async def drain(_: LeaderTerm) -> Reply:
            known = directives.drains.get(broker_id)
            if known is not None and not known.rollout_id:
                return runner.drains.row(broker_id, known)
            forecast = await runner.admission.check(broker_id, terms)
            if is_dry_run:
                return forecast.to_row()
            wanted = runner.admission.drain(broker_id, order, terms)
            return runner.drains.row(broker_id, await directives.begin_drain(broker_id, wanted))

        work = schedule if terms.begins_ms > now_ms else drain
        return await self._run_in_term(work, f"drain {broker_id}")

    async def undrain(self, broker_id: str) -> bool:
        """End a drain, or cancel a scheduled one; false: there was none.

        Raises:
            StoreError: the drain was not deleted.
            NoLeader: this broker does not lead (any more).
        """
        directives = self._dependencies.directives

        async def undrain(_: LeaderTerm) -> bool:
            # The window first: the leader would make a drain of it.
            is_cancelled = await directives.unschedule(broker_id)
            return await directives.end_drain(broker_id) or is_cancelled

        return await self._run_in_term(undrain, f"undrain {broker_id}")

    # History.

    def imbalance(self, most: int) -> list[dict[str, Any]]:
        """Imbalance in the cycles of this term, the oldest first; at most ``most`` points."""
        return [point.to_row() for point in self._term.balance_trace.points(most)]

    def history(self, wanted: HistoryFilter) -> list[dict[str, Any]]:
        """The newest decisions of this leader with their outcomes, newest first."""
        rows = self._term.decision_history.rows(self._dependencies.journal.recent(_MAX_SEARCHED))
        found = (dict(row) for row in rows if _matches(row, wanted))
        return [row for row, _ in zip(found, range(wanted.limit), strict=False)]


def _without_budgets(rules: LeaderRules) -> LeaderRules:
    budgets = replace(
        rules.budgets,
        max_moves=sys.maxsize,
        max_moves_per_broker=sys.maxsize,
        namespace_ratio=1.0,
    )
    return replace(rules, budgets=budgets)


def _moved_load(plan: Plan, view: ClusterView | None) -> dict[str, Any]:
    brokers = () if view is None else view.brokers.values()
    total_bytes = fsum(broker.expected.throughput_bytes for broker in brokers)
    moves = [decision for decision in plan.decisions if isinstance(decision, Transfer)]
    moved_bytes = fsum(move.load_vector.throughput_bytes for move in moves)
    ratio = moved_bytes / total_bytes if total_bytes > 0 else 0.0
    return {
        "moves": len(moves),
        "load_moved_bytes_per_s": moved_bytes,
        "load_moved_ratio": ratio,
    }


def _matches(row: Mapping[str, Any], wanted: HistoryFilter) -> bool:
    if wanted.kind is not None and row["kind"] != wanted.kind:
        return False
    if wanted.result is not None and row["result"] != wanted.result:
        return False
    if wanted.since_ms is not None and row["at_ms"] < wanted.since_ms:
        return False
    if wanted.until_ms is not None and row["at_ms"] > wanted.until_ms:
        return False
    subjects = [each for each in (wanted.broker, wanted.bundle) if each is not None]
    return set(subjects) <= subjects_of(row)
