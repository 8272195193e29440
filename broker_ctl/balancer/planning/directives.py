"""Directives of operators as the leader carries them out: drains, maintenance, pauses."""

import logging
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import fsum
from typing import Any, Final

from broker_ctl.balancer.context.bundle_history import ReceivedReport
from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.balancer.planning.rollout.evacuation import Evacuation
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import (
    AuditInfo,
    Drain,
    DrainState,
    DrainTerms,
    MaintenanceWindow,
    drain_progress,
    drain_proposals,
    end_of_drain,
    waits_its_turn,
)
from broker_ctl.core.history.rows import Outcome
from broker_ctl.core.planning.decide import plan_proposals
from broker_ctl.core.planning.drain_forecast import DrainForecast, drained_view
from broker_ctl.errors import (
    BadVersion,
    CorruptRecord,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
    OrderConflict,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete, Operation
from broker_ctl.store.records.directives import DrainRecord

log = logging.getLogger(__name__)

# What the leader writes among the operators' directives, under its epoch.


async def write_directives(term: LeaderTerm, *operations: Operation) -> bool:
    """Write all or none; false: an operator was faster, and what stands now is to be judged.

    Returns once this broker's copy has what was written.

    Raises:
        Fenced: another leader was elected.
        StoreError: nothing was written, or the nodes have to show it.
    """
    dependencies = term.dependencies
    try:
        await term.leadership.write(dependencies.store, *operations)
    except MultiFailed as error:
        if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
            raise
        is_written = False
    else:
        is_written = True
    # Not in a `finally`: a write that is cancelled as the daemon stops must not wait for a copy
    # that a closed store never brings up to date.
    await dependencies.directives.wait_synced()
    return is_written


# Empties the brokers that operators drain, with any shedding strategy.
#
# A drain is an operator's directive, so neither a pause nor a dry run applies to it. It begins
# with the budgets of moves in flight, and speeds up while the moves are short (docs:
# cruise-control).


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


def _count(report: ReceivedReport) -> int:
    pinned = sum(bundle.namespace.is_pinned for bundle in report.lines)
    return report.data.load.bundle_count - pinned


# Whether a broker may be drained: it obeys commands, and the others have room for its load.


class DrainAdmission:
    """Judges the drains that operators ask for, and those whose time has come."""

    def __init__(self, term: LeaderTerm, drains: Drains) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._drains = drains

    async def check(self, broker_id: str, terms: DrainTerms) -> DrainForecast:
        """The forecast of a drain that may begin now.

        Raises:
            OrderConflict: the broker takes no commands, or the others lack room.
            StoreError: the view could not be taken.
        """
        self.check_broker(broker_id)
        await require_executable(self._term)
        await self._term.leadership.wait_deciding()
        if not terms.is_forced:
            self._check_receivers(broker_id)
        forecast = await self._drains.forecast(broker_id)
        limit_ratio = self._dependencies.rules().shedding_rules.balance.headroom_ratio
        if not terms.is_forced and (why_not := forecast.refusal(limit_ratio)):
            raise OrderConflict(f"{why_not}; use force to drain it anyway")
        return forecast

    def check_broker(self, broker_id: str) -> None:
        """Check that a broker is one of this cluster's own.

        Raises:
            OrderConflict: it is another program, or not alive.
        """
        if broker_id not in self._dependencies.registry.peers:
            raise OrderConflict(
                f"{broker_id} is not a broker-ctl process and accepts no commands; "
                "unload its bundles with its own tools"
            )

    def drain(self, broker_id: str, order: AuditInfo, terms: DrainTerms) -> Drain:
        """The drain of a broker as it is now."""
        peer = self._dependencies.registry.peer(broker_id)
        ends_after = peer.run if terms.until_restart and peer is not None else ""
        return Drain(order, *self._drains.left(broker_id), terms.ends_ms, ends_after)

    def _check_receivers(self, broker_id: str) -> None:
        others = [peer for peer in self._dependencies.registry.peers if peer != broker_id]
        if not any(map(self._dependencies.can_receive, others)):
            raise OrderConflict(
                f"no broker could receive the bundles of {broker_id}: each of the "
                f"{len(others)} others is stopping or drained; use force to drain it anyway"
            )


async def require_executable(term: LeaderTerm) -> None:
    """Refuse directives that could not be executed: they would wait forever.

    Raises:
        OrderConflict: nothing may be carried out now, and why.
    """
    if why := await term.executor.blocked_reason():
        raise OrderConflict(why)


# Begins scheduled drains at their time, and ends drains that are over.
#
# A window waits in a node of its own until its time: only the leader judges the time, so brokers
# whose clocks differ agree on who is drained. All its writes carry the leader's epoch.


# Pause before a drain is tried again that could not begin.
_RETRY_S: Final = 10.0
_MS: Final = 1000


class Maintenance:
    """The scheduled drains of one term, and the ends of all drains."""

    def __init__(self, term: LeaderTerm, admission: DrainAdmission) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._directives = term.dependencies.directives
        self._admission = admission
        self._retry_s = -math.inf
        # Why a drain whose time has come has not begun, by broker id.
        self._obstacles: dict[str, str] = {}

    @property
    def due_s(self) -> float:
        """When something is to be done next; infinity: nothing is scheduled."""
        if any(True for _ in self._over()):
            return -math.inf
        clock = self._dependencies.clock
        wall_ms, now_s = clock.wall_ms(), clock.now_s()
        begins = [max(wall_ms, each.terms.begins_ms) for each in self._directives.windows.values()]
        ends = [each.ends_ms for each in self._directives.drains.values() if each.ends_ms]
        begin_s = max(self._retry_s, now_s + (min(begins, default=math.inf) - wall_ms) / _MS)
        return min(begin_s, now_s + (min(ends, default=math.inf) - wall_ms) / _MS)

    async def advance(self) -> None:
        """Begin and end what is due.

        Raises:
            Fenced, AuthorityLost: this broker does not lead any more.
            StoreError: a node could not be read, or not be written.
        """
        if self.due_s > self._dependencies.clock.now_s():
            return
        await self._term.leadership.wait_deciding()
        for broker_id, why in list(self._over()):
            await self._end(broker_id, why)
        self._obstacles = {
            each: why for each, why in self._obstacles.items() if each in self._directives.windows
        }
        wall_ms = self._dependencies.clock.wall_ms()
        for broker_id, window in sorted(self._directives.windows.items()):
            if window.terms.begins_ms <= wall_ms:
                self._retry_s = self._dependencies.clock.now_s() + _RETRY_S
                await self._begin(broker_id, window)

    def rows(self) -> list[dict[str, Any]]:
        """The drains that have not begun, as plain JSON values."""
        windows = sorted(self._directives.windows.items())
        return [self.row(broker_id, window) for broker_id, window in windows]

    def row(self, broker_id: str, window: MaintenanceWindow) -> dict[str, Any]:
        """One scheduled drain, as plain JSON values."""
        return {
            "broker": broker_id,
            **window.order.to_row(),
            "state": DrainState.SCHEDULED.value,
            "begins_ms": window.terms.begins_ms,
            "ends_ms": window.terms.ends_ms or None,
            "until_restart": window.terms.until_restart,
            "obstacle": self._obstacles.get(broker_id, ""),
        }

    def _over(self) -> Iterator[tuple[str, str]]:
        wall_ms = self._dependencies.clock.wall_ms()
        for broker_id, drain in self._directives.drains.items():
            peer = self._dependencies.registry.peer(broker_id)
            if why := end_of_drain(drain, None if peer is None else peer.run, wall_ms):
                yield broker_id, why

    async def _begin(self, broker_id: str, window: MaintenanceWindow) -> None:
        if 0 < window.terms.ends_ms <= self._dependencies.clock.wall_ms():
            log.warning("the drain of %s never began: its time is over", broker_id)
            await write_directives(self._term, Delete(paths.maintenance_window(broker_id)))
            return
        if broker_id not in self._directives.drains and not await self._is_admitted(
            broker_id, window
        ):
            return
        # A drain that an operator began meanwhile stays as it is.
        create = []
        if broker_id not in self._directives.drains:
            drain = self._admission.drain(broker_id, window.order, window.terms)
            create = [Create(paths.drain(broker_id), DrainRecord(drain).encode())]
            await self._make_parent()
        if await write_directives(self._term, *create, Delete(paths.maintenance_window(broker_id))):
            log.info("the scheduled drain of %s begins%s", broker_id, window.order.suffix)

    async def _is_admitted(self, broker_id: str, window: MaintenanceWindow) -> bool:
        try:
            await self._admission.check(broker_id, window.terms)
        except OrderConflict as error:
            if self._obstacles.get(broker_id) != str(error):
                log.warning("the scheduled drain of %s cannot begin: %s", broker_id, error)
            self._obstacles[broker_id] = str(error)
            return False
        return True

    async def _end(self, broker_id: str, why: str) -> None:
        """Delete a drain; one that was given again meanwhile stays."""
        path = paths.drain(broker_id)
        node = await self._dependencies.store.get(path)
        if node is None:
            return
        try:
            drain = DrainRecord.decode(node.path, node.data).drain
        except (CorruptRecord, NewerVersion):
            return
        if drain == self._directives.drains.get(broker_id) and await write_directives(
            self._term, Delete(path, node.stat.version)
        ):
            log.info("the drain of %s ends: %s", broker_id, why)

    async def _make_parent(self) -> None:
        if await self._dependencies.store.exists(paths.DRAINS) is None:
            with suppress(NodeExists):
                await self._dependencies.store.create(paths.DRAINS, make_parents=True)
