"""What operators do to the balancing as a whole: plans, drains, and what was decided lately."""

import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from math import fsum
from typing import Any, Final, Protocol, TypeVar

from broker_ctl.balancer.api import HistoryFilter
from broker_ctl.balancer.context.decision_rows import named
from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.balancer.planning.directive_runner import DirectiveRunner
from broker_ctl.balancer.planning.proposed_plans import ProposedPlans, plan_id_of
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Transfer
from broker_ctl.core.cluster.directives import AuditInfo, Drain
from broker_ctl.core.cluster.plan_file import HOLDS_MS, PlanFile
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.planning.cycle import plan_proposals
from broker_ctl.core.planning.plan import Plan
from broker_ctl.errors import OrderConflict

_T = TypeVar("_T")

_SEARCHED: Final = 1000


class Previews(Protocol):
    """The cycle; see `leader.cycle.Cycle`."""

    async def preview(self, rules: LeaderRules) -> Plan:
        """What a cycle would do now."""
        ...


class ByOperator(Protocol):
    """Runs work in the scope of the leading; see `leader.controller.Controller`."""

    def __call__(
        self, work: Callable[[LeaderTerm], Coroutine[Any, Any, _T]], name: str
    ) -> Coroutine[Any, Any, _T]:
        """The result of the work, whoever goes away meanwhile."""
        ...


class LeaderOperations:
    """`AdminOperations` of one leading."""

    def __init__(
        self,
        leading: LeaderTerm,
        previews: Previews,
        standing: DirectiveRunner,
        shown: ProposedPlans,
        by_order: ByOperator,
    ) -> None:
        self._leading = leading
        self._parts = leading.parts
        self._previews = previews
        self._standing = standing
        self._shown = shown
        self._by_order = by_order

    # Plans.

    async def plan(self, *, is_verbose: bool) -> Reply:
        """See `AdminOperations.plan`.

        Raises:
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """
        rules = self._standing.approvals.steered(self._parts.rules())
        plan = await self._by_order(lambda _: self._previews.preview(rules), "plan")
        return self._told(plan, rules, is_verbose=is_verbose)

    async def plan_of_file(self, file: PlanFile) -> Reply:
        """See `AdminOperations.plan_of_file`.

        Raises:
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """
        rules = self._parts.rules()
        # How many go at a time is for later: here it only counts whether they may go at all.
        budgets = replace(
            rules.budgets,
            max_moves=sys.maxsize,
            max_moves_per_broker=sys.maxsize,
            namespace_ratio=1.0,
        )

        async def valid(leading: LeaderTerm) -> Plan:
            await leading.leadership.wait_deciding()
            view = await leading.survey.take()
            unhurried = replace(rules, budgets=budgets)
            return await self._parts.planner.run(plan_proposals, view, file.proposals, unhurried)

        plan = await self._by_order(valid, "plan of a file")
        until_ms = self._parts.clock.wall_ms() + HOLDS_MS
        told = self._told(plan, rules, is_verbose=True, in_force_until_ms=until_ms)
        return {**told, "hash": file.hash, "before": file.before, "after": file.after}

    def _told(
        self, plan: Plan, rules: LeaderRules, *, is_verbose: bool, in_force_until_ms: int = 0
    ) -> dict[str, Any]:
        """A plan that may be approved from now on."""
        plan_id, now_s = plan_id_of(plan), self._parts.clock.now_s()
        self._shown.note(plan_id, plan, now_s, in_force_until_ms=in_force_until_ms)
        is_paused = self._parts.directives.pause is not None
        row = plan.to_row()
        skipped = row.pop("skipped")
        return {
            "id": plan_id,
            "taken_at_ms": self._leading.survey.latest_ms,
            "held_back": "paused" if is_paused else "dry_run" if rules.is_dry_run else "",
            **row,
            **self._moved(plan),
            "skipped_by_reason": Counter(skip.reason.value for skip in plan.skipped),
            **({"skipped": skipped} if is_verbose else {}),
        }

    def _moved(self, plan: Plan) -> dict[str, Any]:
        view = self._leading.survey.latest
        brokers = () if view is None else view.brokers.values()
        total_bytes = fsum(broker.expected.throughput_bytes for broker in brokers)
        moves = [decision for decision in plan.decisions if isinstance(decision, Transfer)]
        moved_bytes = fsum(move.footprint.throughput_bytes for move in moves)
        ratio = moved_bytes / total_bytes if total_bytes > 0 else 0.0
        return {
            "moves": len(moves),
            "load_moved_bytes_per_s": moved_bytes,
            "load_moved_ratio": ratio,
        }

    async def approve(self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False) -> Reply:
        """See `AdminOperations.approve`.

        Raises:
            PlanMissing, OrderConflict: as there.
            StoreError: it was not written.
            NoLeader: this broker does not lead (any more).
        """
        approvals = self._standing.approvals
        order = AuditInfo.of(self._parts.clock.wall_ms(), who, why)

        async def approve(leading: LeaderTerm) -> Reply:
            await _require_free_hands(leading)
            if (known := await approvals.find(plan_id)) is not None and known.is_open:
                return known.to_row()
            now_s = self._parts.clock.now_s()
            decisions = self._shown.decisions_of(plan_id, now_s)
            until_ms = self._shown.in_force_until_ms(plan_id, now_s)
            approved = await approvals.approve(
                plan_id, decisions, order, in_force_until_ms=until_ms, is_dry_run=is_dry_run
            )
            return approved.to_row()

        row = await self._by_order(approve, f"approve plan {plan_id}")
        if not is_dry_run:
            self._standing.wake()
        return row

    async def plans(self) -> list[dict[str, Any]]:
        """See `AdminOperations.plans`.

        Raises:
            StoreError: they could not be read.
            NoLeader: this broker does not lead (any more).
        """
        return await self._by_order(lambda _: self._standing.approvals.rows(), "plans")

    async def stop_plan(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Reply:
        """See `AdminOperations.stop_plan`.

        Raises:
            PlanMissing, OrderConflict: as there.
            StoreError: it was not written.
            NoLeader: this broker does not lead (any more).
        """
        note = f"stopped by {who or 'an operator'}" + (f": {why}" if why else "")
        approvals = self._standing.approvals
        stopped = await self._by_order(
            lambda _: approvals.stop(plan_id, note, is_dry_run=is_dry_run), f"stop plan {plan_id}"
        )
        return stopped.to_row()

    # Drains.

    def drains(self) -> list[dict[str, Any]]:
        """See `AdminOperations.drains`."""
        return self._standing.drains.rows()

    async def drain(
        self, broker_id: str, who: str, why: str, *, is_forced: bool, is_dry_run: bool = False
    ) -> Reply:
        """See `AdminOperations.drain`; one that is drained already is told of, and no more.

        Raises:
            OrderConflict: as there.
            StoreError: it was not written.
            NoLeader: this broker does not lead (any more).
        """
        directives, drains = self._parts.directives, self._standing.drains

        async def drain(leading: LeaderTerm) -> Reply:
            if (known := directives.drains.get(broker_id)) is not None:
                return drains.row(broker_id, known)
            self._check_obeys(broker_id)
            await _require_free_hands(leading)
            await leading.leadership.wait_deciding()
            if not is_forced:
                self._check_receivers(broker_id)
            forecast = await drains.forecast(broker_id)
            limit_ratio = self._parts.rules().shedding_rules.balance.headroom_ratio
            if not is_forced and (why_not := forecast.refusal(limit_ratio)):
                raise OrderConflict(f"{why_not}; force it to drain it all the same")
            if is_dry_run:
                return forecast.to_row()
            order = AuditInfo.of(self._parts.clock.wall_ms(), who, why)
            wanted = Drain(order, *drains.left(broker_id))
            return drains.row(broker_id, await directives.begin_drain(broker_id, wanted))

        return await self._by_order(drain, f"drain {broker_id}")

    def _check_obeys(self, broker_id: str) -> None:
        if broker_id not in self._parts.registry.peers:
            raise OrderConflict(
                f"{broker_id} takes no orders: it is no broker-ctl process; unload its bundles "
                "with its own tools"
            )

    def _check_receivers(self, broker_id: str) -> None:
        others = [peer for peer in self._parts.registry.peers if peer != broker_id]
        if not any(map(self._parts.can_receive, others)):
            raise OrderConflict(
                f"nobody could receive the bundles of {broker_id}: of {len(others)} other brokers "
                "each is on its way down or drained; force it to drain it all the same"
            )

    async def undrain(self, broker_id: str) -> bool:
        """See `AdminOperations.undrain`.

        Raises:
            StoreError: it was not taken away.
            NoLeader: this broker does not lead (any more).
        """
        directives = self._parts.directives
        return await self._by_order(
            lambda _: directives.end_drain(broker_id), f"undrain {broker_id}"
        )

    # History.

    def history(self, wanted: HistoryFilter) -> list[dict[str, Any]]:
        """See `AdminOperations.history`."""
        now_ms = self._parts.clock.wall_ms()
        rows = self._leading.kept.rows(self._parts.journal.recent(_SEARCHED))
        found = (dict(row) for row in rows if _is_wanted(row, wanted, now_ms))
        return [row for row, _ in zip(found, range(wanted.limit), strict=False)]


async def _require_free_hands(leading: LeaderTerm) -> None:
    """What is ordered must be possible: it would wait for ever.

    Raises:
        OrderConflict: nothing may be carried out now, and why.
    """
    if why := await leading.hands.held_back():
        raise OrderConflict(why)


def _is_wanted(row: Mapping[str, Any], wanted: HistoryFilter, now_ms: int) -> bool:
    if wanted.kind is not None and row["kind"] != wanted.kind:
        return False
    if wanted.result is not None and row["result"] != wanted.result:
        return False
    if wanted.within_s is not None and now_ms - row["at_ms"] > wanted.within_s * 1000:
        return False
    subjects = [each for each in (wanted.broker, wanted.bundle) if each is not None]
    return set(subjects) <= named(row)
