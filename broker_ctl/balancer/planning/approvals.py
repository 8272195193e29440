"""Plans approved by an operator, executed by the leader.

The plan is in one node and the fate of each decision in a small one beside it, so that another
leader can continue. Neither a pause nor a dry run applies to approved plans. Each batch is planned
on a fresh view: obsolete decisions are skipped, and those over the limit of moves in flight wait.
"""

import asyncio
import logging
import math
from dataclasses import replace
from typing import Any, Final

from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.balancer.planning.plan_store import Approved, PlanStore
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Action
from broker_ctl.core.cluster.directives import MOST_WHO, AuditInfo
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.planning.approval import (
    Event,
    Fate,
    Fates,
    State,
    check_progress,
    mark_refused,
    record_results,
    step,
)
from broker_ctl.core.planning.cycle import plan_proposals
from broker_ctl.errors import NoNode, OrderConflict, PlanMissing
from broker_ctl.store.records.directives import PlanProgress, PlanRecord

log = logging.getLogger(__name__)

# A plan without progress for this time is stopped.
_STUCK_S: Final = 600.0
_INTERVAL_S: Final = 1.0


class Approvals:
    """The approved plans of one term: one is executed at a time."""

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self._clock = term.dependencies.clock
        self._nodes = PlanStore(term.dependencies.store, term.leadership)
        self._plans: dict[str, Approved] | None = None
        # Serialises reading and writing.
        self._turn = asyncio.Lock()
        self._due_s = -math.inf
        self._moved_s = -math.inf

    @property
    def due_s(self) -> float:
        """When the next batch is due; infinity if no plan has decisions left."""
        return self._due_s if self._plans is None or self._open() is not None else math.inf

    def adjusted(self, rules: LeaderRules) -> LeaderRules:
        """The current rules; they differ while a plan from the daily profile is in force."""
        now_ms = self._clock.wall_ms()
        plans = (self._plans or {}).values()
        return rules.under_plan if any(each.is_in_force(now_ms) for each in plans) else rules

    async def load(self) -> None:
        """Read the plans of earlier leaders: the first cycle must know which is in force.

        Raises:
            StoreError: the nodes could not be read.
        """
        async with self._turn:
            await self._loaded()

    # Requests of operators.

    async def approve(
        self,
        plan_id: str,
        decisions: tuple[Action, ...],
        order: AuditInfo,
        *,
        in_force_until_ms: int = 0,
        proposed_by: str = "",
        is_dry_run: bool = False,
    ) -> Approved:
        """Store a plan for immediate execution; repeating it changes nothing.

        It replaces the previous plan, even one in force. A dry run only checks that this is
        possible.

        Raises:
            OrderConflict: another plan is being executed, or this one is too large or empty.
            Fenced: another broker leads.
            StoreError: the plan was not written.
        """
        async with self._turn:
            plans = await self._loaded()
            current = self._open()
            if current is not None and current.record.plan_id == plan_id:
                return current
            if current is not None:
                raise OrderConflict(
                    f"plan {current.record.plan_id} is being carried out: wait for it, or stop it"
                )
            if not decisions:
                raise OrderConflict(f"plan {plan_id} has no decisions")
            state = step(State.PROPOSED, Event.APPROVE)
            progress = PlanProgress(state, (Fate.WAITING,) * len(decisions), order.at_ms)
            epoch = self._term.leadership.epoch
            record = PlanRecord(
                plan_id, epoch, order, decisions, in_force_until_ms, proposed_by[:MOST_WHO]
            )
            approved = Approved(record, progress)
            if is_dry_run:
                return approved
            for over in [*plans]:
                await self._nodes.forget(over)
                del plans[over]
            await self._nodes.create(approved)
            plans[plan_id] = approved
        self._due_s, self._moved_s = -math.inf, self._clock.now_s()
        return approved

    async def find(self, plan_id: str) -> Approved | None:
        """Find an approved plan.

        Raises:
            StoreError: the nodes could not be read.
        """
        async with self._turn:
            return (await self._loaded()).get(plan_id)

    async def stop(self, plan_id: str, note: str, *, is_dry_run: bool = False) -> Approved:
        """Start no further decision of a plan; moves in flight end. A dry run only checks.

        Raises:
            PlanMissing: no such plan was approved.
            OrderConflict: it has ended.
            Fenced: another broker leads.
            StoreError: the progress was not written.
        """
        async with self._turn:
            approved = (await self._loaded()).get(plan_id)
            if approved is None:
                raise PlanMissing(f"no plan {plan_id} was approved")
            if not approved.is_open:
                raise OrderConflict(f"plan {plan_id} is {approved.progress.state.value} already")
            if is_dry_run:
                return approved
            return await self._write(approved, Event.STOP, approved.progress.fates, note)

    async def rows(self) -> list[dict[str, Any]]:
        """The plan in execution, or the last one, as plain JSON values.

        Raises:
            StoreError: the plans could not be read.
        """
        async with self._turn:
            return [approved.to_row() for approved in (await self._loaded()).values()]

    # Execution by the leader.

    async def advance(self, rules: LeaderRules) -> bool:
        """Execute a batch if one is due; returns whether a decision reached its end.

        Raises:
            StoreError: the nodes or the view could not be read, or the progress not written.
            InvariantBroken: the plan would violate an invariant; nothing of it is executed.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        if self._clock.now_s() < self.due_s:
            return False
        self._due_s = self._clock.now_s() + _INTERVAL_S
        await self._term.leadership.wait_deciding()
        if await self._term.executor.blocked_reason():
            # Execution is blocked: this time does not count as time without progress.
            self._moved_s = -math.inf
            return False
        async with self._turn:
            await self._loaded()
            current = self._open()
            if current is None:
                return False
            before = current.progress.fates
            if self._moved_s == -math.inf or current.progress.state is State.APPROVED:
                self._moved_s = self._clock.now_s()
                current = await self._write(current, Event.BEGIN, before)
        fates = await self._execute_batch(current, rules)
        async with self._turn:
            await self._settle(self._latest(current), fates)
        return fates != before

    async def _execute_batch(self, current: Approved, rules: LeaderRules) -> Fates:
        """Execute a batch; returns the fates of its decisions."""
        decisions, recorder = current.record.decisions, self._term.recorder
        view = await self._term.snapshot_builder.build(current.record.epoch)
        seen = check_progress(view, decisions, current.progress.fates)
        plan = await self._term.dependencies.planner.run(
            plan_proposals, view, seen.waiting.values(), rules
        )
        fates, final = mark_refused(seen.waiting, seen.fates, plan.skipped)
        for skip in final:
            recorder.record(skip, Outcome("skipped"))
        if not self._latest(current).is_open:
            # The plan was stopped while the batch was planned.
            return fates
        done = await self._term.executor.execute_all(plan.decisions, plan.order.waits)
        successes = frozenset(decision.bundles for decision in done)
        return record_results(seen.waiting, fates, plan.decisions, successes)

    async def _settle(self, current: Approved, fates: Fates) -> None:
        """Store the progress; a plan that was stopped meanwhile stays stopped."""
        now_s = self._clock.now_s()
        if fates != current.progress.fates:
            self._moved_s = now_s
        if Fate.WAITING not in fates:
            await self._write(current, Event.SETTLED, fates)
            log.info(
                "plan %s has advanced: %s", current.record.plan_id, self._latest(current).to_row()
            )
        elif now_s - self._moved_s > _STUCK_S:
            note = f"no remaining decision could be executed for {_STUCK_S:.0f} s"
            await self._write(current, Event.STUCK, fates, note)
        elif fates != current.progress.fates:
            await self._write(current, None, fates)

    async def _write(
        self, approved: Approved, event: Event | None, fates: Fates, note: str = ""
    ) -> Approved:
        progress, plan_id = approved.progress, approved.record.plan_id
        state = progress.state if event is None else step(progress.state, event, plan_id)
        written = replace(
            progress,
            state=state,
            fates=fates,
            changed_ms=self._clock.wall_ms(),
            note=note or progress.note,
        )
        assert self._plans is not None
        try:
            await self._nodes.write(plan_id, written)
        except NoNode:
            # An operator deleted the node to stop the plan.
            log.warning("plan %s stopped: its node was deleted", plan_id)
            written = replace(written, state=State.STOPPED, note="its node was deleted")
        self._plans[plan_id] = replace(approved, progress=written)
        return self._plans[plan_id]

    def _open(self) -> Approved | None:
        return next((each for each in (self._plans or {}).values() if each.is_open), None)

    def _latest(self, approved: Approved) -> Approved:
        """The newest copy of a plan."""
        return (self._plans or {}).get(approved.record.plan_id, approved)

    async def _loaded(self) -> dict[str, Approved]:
        if self._plans is None:
            self._plans = {each.record.plan_id: each for each in await self._nodes.read_all()}
        return self._plans
