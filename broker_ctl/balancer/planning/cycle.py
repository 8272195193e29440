"""The leader's cycle: view, proposals, plan, acts (docs: load-balancing, pulsar-leader-tasks)."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Collection, Mapping
from typing import Final

from broker_ctl.balancer.context.decisions import HistoryRecorder
from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.monitoring.absence_monitor import StabilityGate
from broker_ctl.balancer.planning.directive_runner import DirectiveRunner
from broker_ctl.balancer.planning.orphans import MassLossBrake
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Action, Split
from broker_ctl.core.cluster.directives import drain_proposals
from broker_ctl.core.cluster.imbalance import imbalance
from broker_ctl.core.history.rows import BalancePoint, Outcome
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.counting import batched, splitmix64
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.decide import (
    CycleMemory,
    is_cut_short,
    plan_proposals,
    propose,
    slow_records,
    usage_averages,
)
from broker_ctl.core.planning.plan import Plan
from broker_ctl.core.strategies.balance.slowness import SlownessRecord
from broker_ctl.core.strategies.splitting.candidates import unload_new_bundles
from broker_ctl.errors import AuthorityLost, BrokerCtlError, Fenced, InvariantBroken
from broker_ctl.store import paths
from broker_ctl.tasks import wait_until

log = logging.getLogger(__name__)

# The children of a split may move at once (loadBalancerAutoUnloadSplitBundlesEnabled).
#
# Pulsar unloads all children and leaves their placement to the next lookups, possibly at the same
# broker. Here they are proposed for a move like any other bundle: placement chooses the receivers,
# budgets limit the number, and a child without a better or permitted place stays.


def children_of_splits(done: Mapping[Action, Reply]) -> list[Bundle]:
    """The children of all splits that were executed."""
    return [
        Bundle.parse(text)
        for decision, reply in done.items()
        if isinstance(decision, Split)
        for text in reply["children"]
    ]


async def spread_children(
    term: LeaderTerm, children: Collection[Bundle], draw_seed: int = 0
) -> None:
    """Move those for which another broker is the better place; a failed move is recorded.

    Raises:
        StoreError: the view could not be taken.
        InvariantBroken: the plan would break a safety sentence; nothing of it is done.
        ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
    """
    if not children:
        return
    # Our copy of the rings may be older than the change made by the owner.
    for namespace in sorted({child.namespace for child in children}):
        await term.dependencies.store.sync(paths.local_policies(namespace))
    view = await term.snapshot_builder.build(draw_seed)
    proposals = unload_new_bundles(view, children)
    rules = term.dependencies.rules()
    plan = await term.dependencies.planner.run(plan_proposals, view, proposals, rules)
    for skip in plan.skipped:
        term.recorder.record(skip, Outcome("skipped"))
    await term.executor.execute_all(plan.decisions, plan.order.waits)


# The leader's cycle: view, proposals, plan, acts (docs: load-balancing, pulsar-leader-tasks).
#
# Shedding has its own interval; splitting and merging share another. Whatever is due at the same
# time is planned together. A pause and a dry run stop after the plan; its decisions are recorded
# as such.


_IDLE_S: Final = 1.0
_FOLLOW_UP_S: Final = 5.0
_BATCH: Final = 50


class Cycle:
    """The loop of one term.

    Attributes:
        plan: the newest plan.
        is_paused: whether an operator's pause held the newest plan back.
        standing: directives of operators, executed between two cycles.
    """

    def __init__(
        self, term: LeaderTerm, stability_gate: StabilityGate, brake: MassLossBrake
    ) -> None:
        self._term = term
        self._brake = brake
        self._dependencies = term.dependencies
        self._stability_gate = stability_gate
        self._cycle_memory = CycleMemory()
        history = term.dependencies.history
        self._capture = None if history is None else HistoryRecorder(history, term.leadership.epoch)
        # When each ran last; the current interval says when it is due.
        self._shed_s = -math.inf
        self._split_s = -math.inf
        self._surge_s = -math.inf
        self._is_cut_short = False
        self.plan: Plan | None = None
        self.is_paused = False
        self.directive_runner = DirectiveRunner(term)
        self._surges = term.load_monitor.surges

    @property
    def usage_averages(self) -> Mapping[str, float]:
        """Moving average of each broker's usage, if the shedding strategy keeps one."""
        return usage_averages(self._cycle_memory.memory)

    @property
    def slow_records(self) -> Mapping[str, SlownessRecord]:
        """What is known of how slow each broker is; empty if the strategy does not judge it."""
        return slow_records(self._cycle_memory.memory)

    def next_due_s(self) -> float | None:
        """Seconds until the next cycle, if nothing happens before; None: none is due ever."""
        due_s = min(self._due_s(self._dependencies.rules()))
        if due_s == -math.inf:
            return 0.0
        left_s = due_s - self._dependencies.clock.now_s()
        return None if math.isinf(left_s) else max(0.0, left_s)

    async def run(self) -> None:
        """Run cycles until the term ends.

        Raises:
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        stop_listening = self._surges.listen(self.directive_runner.wake)
        try:
            await self._run()
        finally:
            stop_listening()

    async def _run(self) -> None:
        await self._wait_reports()
        await self._log_errors(self.directive_runner.approvals.load())
        while True:
            await self._stability_gate.wait_stable()
            rules = self.directive_runner.approvals.adjusted(self._dependencies.rules())
            await self._log_errors(self._brake.advance(rules))
            now_s = self._dependencies.clock.now_s()
            shed_due_s, split_due_s = self._due_s(rules)
            is_shed_due, is_split_due = now_s >= shed_due_s, now_s >= split_due_s
            if is_shed_due or is_split_due:
                has_risen = self._surges.has_risen
                await self._try_once(rules, is_shed_due=is_shed_due, is_split_due=is_split_due)
                ended_s = self._dependencies.clock.now_s()
                if has_risen:
                    self._surge_s = ended_s
                if is_shed_due:
                    self._shed_s = ended_s
                if is_split_due:
                    self._split_s = ended_s
            await self._log_errors(self.directive_runner.advance(rules))
            await self.directive_runner.wait(self._pause_s(rules))

    async def _wait_reports(self) -> None:
        """Wait until all registered brokers have reported, or the time for that is over."""
        if not await wait_until(self._has_all_reports, self._dependencies.rules().settle_s):
            log.info("not every broker has reported: starting with those that have")

    async def _has_all_reports(self) -> bool:
        return self._dependencies.registry.peers.keys() <= self._term.load_monitor.reports.keys()

    def _pause_s(self, rules: LeaderRules) -> float:
        """Seconds until something is due, at most one, so that changed rules are noticed."""
        left_s = min(self._due_s(rules)) - self._dependencies.clock.now_s()
        return min(max(0.0, left_s), _IDLE_S)

    def _due_s(self, rules: LeaderRules) -> tuple[float, float]:
        """When shedding is due, and when splitting and merging are; infinity: never."""
        shed_s = self._shed_s + rules.shedding_interval_s
        split_s = self._split_s + rules.splitting_interval_s
        if self._is_cut_short or self._surges.current:
            shed_s = min(shed_s, self._shed_s + _FOLLOW_UP_S)
        if self._surges.has_risen:
            # At once, but a cluster in which much surges must not plan without a pause.
            due_s = self._surge_s + _FOLLOW_UP_S
            shed_s, split_s = min(shed_s, due_s), min(split_s, due_s)
        return (
            math.inf if rules.shedding is None else shed_s,
            split_s if rules.is_reshaping else math.inf,
        )

    async def _try_once(self, rules: LeaderRules, *, is_shed_due: bool, is_split_due: bool) -> None:
        await self._log_errors(self.once(rules, is_shed_due=is_shed_due, is_split_due=is_split_due))

    async def _log_errors(self, work: Awaitable[object]) -> None:
        try:
            await work
        except (AuthorityLost, Fenced):
            raise
        except InvariantBroken:
            log.exception("cycle %d: the plan is refused", self._term.recorder.cycle)
        except BrokerCtlError as error:
            log.warning("cycle %d failed: %s", self._term.recorder.cycle, error)

    async def once(
        self, rules: LeaderRules, *, is_shed_due: bool = True, is_split_due: bool = True
    ) -> Plan:
        """Run one cycle.

        Raises:
            StoreError: the view could not be taken.
            InvariantBroken: the plan would violate an invariant; nothing of it is executed.
        """
        await self._term.leadership.wait_deciding()
        self._term.recorder.cycle += 1
        began_s = self._dependencies.clock.now_s()
        await self._term.executor.adopt()
        view = await self._term.snapshot_builder.build(self._draw_seed())
        number = self._term.recorder.cycle
        uneven = imbalance(view)
        self._term.balance_trace.add(
            BalancePoint(view.taken_at_ms, uneven.usage, uneven.throughput)
        )
        if self._capture is not None:
            # Decisions are recorded even if the execution fails.
            await self._capture.record_view(view, number)
        self._cycle_memory, proposals = await self._dependencies.planner.run(
            propose,
            self._cycle_memory,
            view,
            rules,
            is_shed_due=is_shed_due,
            is_split_due=is_split_due,
        )
        if self._capture is not None and is_shed_due and self._cycle_memory.memory is not None:
            self._capture.record_memory(self._cycle_memory.memory, view, number)
        self.plan = await self._dependencies.planner.run(plan_proposals, view, proposals, rules)
        self._surges.record_plan(view.surges)
        took_s = self._dependencies.clock.now_s() - began_s
        log.debug("cycle %d took %.3f s: %s", number, took_s, self.plan.sentence)
        done = await self._carry_out(self.plan, rules)
        # Budgets limit the moves in flight, not the moves per minute.
        self._is_cut_short = bool(done) and is_cut_short(self.plan)
        if rules.splitting is not None and rules.splitting.is_unloading:
            await spread_children(self._term, children_of_splits(done), self._draw_seed())
        return self.plan

    async def preview(self, rules: LeaderRules) -> Plan:
        """Make the plan of a cycle now, without executing, remembering or recording it.

        Raises:
            StoreError: the view could not be taken.
            InvariantBroken: the plan would violate an invariant.
        """
        await self._term.leadership.wait_deciding()
        view = await self._term.snapshot_builder.build(self._draw_seed(ahead=1))
        _, proposals = await self._dependencies.planner.run(
            propose,
            self._cycle_memory,
            view,
            rules,
            is_shed_due=True,
            is_split_due=rules.is_reshaping,
        )
        proposals += drain_proposals(view, self._dependencies.directives.drains)
        return await self._dependencies.planner.run(plan_proposals, view, proposals, rules)

    async def _carry_out(self, decided: Plan, rules: LeaderRules) -> Mapping[Action, Reply]:
        """Execute a plan unless it is held back; returns the replies."""
        recorder = self._term.recorder
        for some in batched(decided.skipped, _BATCH):
            for skip in some:
                recorder.record(skip, Outcome("skipped"))
            await asyncio.sleep(0)
        self.is_paused = await self._dependencies.store.exists(paths.PAUSE) is not None
        blocked_reason = "paused" if self.is_paused else "dry_run" if rules.is_dry_run else ""
        why = "" if blocked_reason else await self._term.executor.blocked_reason()
        if not blocked_reason and not why:
            return await self._term.executor.execute_all(decided.decisions, decided.order.waits)
        for decision in decided.decisions:
            recorder.record(decision, Outcome(blocked_reason or "held_back", why))
        return {}

    def _draw_seed(self, ahead: int = 0) -> int:
        """The seed of this cycle or a later one; a replay gets the same seeds."""
        cycle = self._term.recorder.cycle + ahead
        return splitmix64(splitmix64(self._term.leadership.epoch) ^ cycle)
