"""Empties the brokers that operators drain, with any shedding strategy.

A drain is an operator's directive, so neither a pause nor a dry run applies to it. It begins with
the budgets of moves in flight, and speeds up while the moves are short (docs: cruise-control).
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from typing import Any, Final

from broker_ctl.balancer.context.broker_report import Report
from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.balancer.planning.rollout.evacuation import Evacuation
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import Drain
from broker_ctl.core.cluster.draining import drain_progress, drain_proposals, waits_its_turn
from broker_ctl.core.history.journal import Outcome
from broker_ctl.core.planning.cycle import plan_proposals
from broker_ctl.core.planning.drain_forecast import DrainForecast, drained_view

# Pause after a batch that moved bundles, and after one that did not.
_PACE_S: Final = 1.0
_IDLE_S: Final = 10.0


class Drains:
    """The drains of one term."""

    def __init__(self, term: LeaderTerm, evacuation: Evacuation) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._evacuation = evacuation
        self._due_s = -math.inf
        self._known: frozenset[str] = frozenset()

    @property
    def due_s(self) -> float:
        """When the next batch is due: at once for a new drain; infinity without drains."""
        laden = self._laden()
        if not laden:
            return math.inf
        return self._due_s if laden <= self._known else -math.inf

    def _laden(self) -> frozenset[str]:
        """Drained brokers that still have bundles."""
        drains, reports = self._dependencies.directives.drains, self._term.load_monitor.reports
        return frozenset(each for each in drains if each in reports and _count(reports[each]))

    async def advance(self, rules: LeaderRules) -> bool:
        """Move a batch of bundles away if one is due; returns whether any was moved.

        Raises:
            StoreError: the view could not be taken.
            InvariantBroken: the plan would violate an invariant; nothing of it is executed.
            ExceptionGroup: with `Fenced` or `AuthorityLost`: this broker does not lead any more.
        """
        if self._dependencies.clock.now_s() < self.due_s:
            return False
        # Whatever the result of this batch, the next one is not due before its time.
        self._known, self._due_s = self._laden(), self._dependencies.clock.now_s() + _IDLE_S
        await self._term.leadership.wait_deciding()
        recorder = self._term.recorder
        view = await self._term.snapshot_builder.build(self._term.leadership.epoch)
        proposals = await self._evacuation.propose(view, self._known, rules)
        paced = self._evacuation.paced(self._known, rules)
        plan = await self._dependencies.planner.run(plan_proposals, view, proposals, paced)
        for skip in plan.skipped:
            if not waits_its_turn(skip):
                recorder.record(skip, Outcome("skipped"))
        began_s = self._dependencies.clock.now_s()
        done = await self._term.executor.execute_all(plan.decisions, plan.order.waits)
        self._evacuation.record(len(done), self._dependencies.clock.now_s() - began_s)
        if done:
            self._due_s = self._dependencies.clock.now_s() + _PACE_S
        return bool(done)

    async def forecast(self, broker_id: str) -> DrainForecast:
        """Forecast a drain together with all active ones.

        Raises:
            StoreError: the view could not be taken.
        """
        rules, drained = (
            self._dependencies.rules(),
            {broker_id, *self._dependencies.directives.drains},
        )
        # Budgets per batch do not matter: all bundles must find a place in the end.
        budgets = replace(rules.budgets, max_moves=sys.maxsize, max_moves_per_broker=sys.maxsize)
        view = drained_view(await self._term.snapshot_builder.build(), drained)
        proposals = drain_proposals(view, drained)
        unhurried = replace(rules, budgets=budgets)
        plan = await self._dependencies.planner.run(plan_proposals, view, proposals, unhurried)
        return DrainForecast.of(view, broker_id, plan, drained)

    def rows(self) -> list[dict[str, Any]]:
        """The progress of each drain, as plain JSON values."""
        drains: Mapping[str, Drain] = self._dependencies.directives.drains
        return [self.row(broker_id, drain) for broker_id, drain in sorted(drains.items())]

    def row(self, broker_id: str, drain: Drain) -> dict[str, Any]:
        """The progress of one drain, as plain JSON values."""
        bundles, throughput_bytes = self.left(broker_id)
        progress = drain_progress(
            drain,
            is_present=self._dependencies.registry.peer(broker_id) is not None,
            bundles=bundles,
            throughput_bytes=throughput_bytes,
            now_ms=self._dependencies.clock.wall_ms(),
        )
        return {
            "broker": broker_id,
            **drain.order.to_row(),
            "bundles_begun": drain.bundles,
            "throughput_begun_bytes": drain.throughput_bytes,
            "ends_ms": drain.ends_ms or None,
            "until_restart": bool(drain.ends_after),
            **progress.to_row(),
        }

    def left(self, broker_id: str) -> tuple[int, float]:
        """Bundles and bytes/s of a broker by its newest report, without pinned bundles."""
        report = self._term.load_monitor.reports.get(broker_id)
        if report is None:
            return 0, 0.0
        pinned = (line for bundle, line in report.lines.items() if bundle.namespace.is_pinned)
        pinned_bytes = fsum(line.throughput for line in pinned)
        return _count(report), max(0.0, report.data.load.total.throughput - pinned_bytes)


def _count(report: Report) -> int:
    pinned = sum(bundle.namespace.is_pinned for bundle in report.lines)
    return report.data.load.bundle_count - pinned
