"""Approved plans in the store; the leader is their only writer, under its epoch."""

import logging
from dataclasses import dataclass
from typing import Any

from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.planning.approval import OPEN, Fate, State
from broker_ctl.errors import (
    CorruptRecord,
    MultiFailed,
    NewerVersion,
    NodeExists,
    NoNode,
    OrderConflict,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete, MetadataStore, Operation, SetData
from broker_ctl.store.records.directives import MOST_PLAN_BYTES, PlanProgress, PlanRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Approved:
    """A plan with its progress."""

    record: PlanRecord
    progress: PlanProgress

    @property
    def is_open(self) -> bool:
        """Whether decisions may be left to execute."""
        return self.progress.state in OPEN

    def is_in_force(self, now_ms: int) -> bool:
        """Whether balancing still respects the placements of the plan."""
        until_ms = self.record.in_force_until_ms
        return now_ms < until_ms and self.progress.state is not State.STOPPED

    def to_row(self) -> dict[str, Any]:
        """The plan and its progress as plain JSON values."""
        fates = self.progress.fates
        return {
            "id": self.record.plan_id,
            "state": self.progress.state.value,
            **self.record.order.to_row(),
            "proposed_by": self.record.proposed_by,
            "decisions": len(fates),
            **{fate.name.lower(): fates.count(fate) for fate in Fate},
            "changed_ms": self.progress.changed_ms,
            "note": self.progress.note,
            "in_force_until_ms": self.record.in_force_until_ms,
        }


class PlanStore:
    """Reads and writes approved plans."""

    def __init__(self, store: MetadataStore, leadership: Leadership) -> None:
        self._store = store
        self._leadership = leadership

    async def read_all(self) -> list[Approved]:
        """All plans that decode, by id; others are skipped.

        Raises:
            StoreError: the store is not reachable.
        """
        # Sync first: an earlier leader may have written until just now.
        await self._store.sync(paths.PLANS)
        found: list[Approved] = []
        for plan_id in await self._store.children(paths.PLANS):
            plan_paths = [paths.plan(plan_id), paths.plan_progress(plan_id)]
            plan, progress = await self._store.get_many(plan_paths)
            if plan is None or progress is None:
                log.warning("skipped plan %s: its progress node is missing", plan_paths[0])
                continue
            try:
                record = PlanRecord.decode(plan.path, plan.data)
                plan_progress = PlanProgress.decode(progress.path, progress.data)
            except (CorruptRecord, NewerVersion) as error:
                log.warning("skipped a plan: %s", error)
                continue
            if len(plan_progress.fates) != len(record.decisions):
                log.warning("skipped a plan: %s does not match its decisions", plan_paths[1])
                continue
            found.append(Approved(record, plan_progress))
        return found

    async def create(self, approved: Approved) -> None:
        """Store a plan.

        Raises:
            OrderConflict: the plan is too large for a node, or exists already.
            Fenced: another broker leads.
            StoreError: the plan was not written.
        """
        data = approved.record.encode()
        if len(data) > MOST_PLAN_BYTES:
            count = len(approved.record.decisions)
            room = count * MOST_PLAN_BYTES // len(data)
            raise OrderConflict(
                f"the plan has {count} decisions, but a node holds about {room}: "
                "smaller budgets (loadBalancerMaxMovesInFlight) make smaller plans"
            )
        plan_id = approved.record.plan_id
        progress = Create(paths.plan_progress(plan_id), approved.progress.encode())
        try:
            await self._multi(Create(paths.plan(plan_id), data), progress)
        except NoNode:
            try:
                await self._store.create(paths.PLANS, make_parents=True)
            except NodeExists:
                log.debug("%s was created meanwhile", paths.PLANS)
            await self._multi(Create(paths.plan(plan_id), data), progress)

    async def write(self, plan_id: str, progress: PlanProgress) -> None:
        """Store the progress of a plan.

        Raises:
            Fenced: another broker leads.
            StoreError: the progress was not written.
        """
        await self._multi(SetData(paths.plan_progress(plan_id), progress.encode()))

    async def forget(self, plan_id: str) -> None:
        """Delete a plan that is over.

        Raises:
            Fenced: another broker leads.
            StoreError: the plan was not deleted.
        """
        await self._multi(Delete(paths.plan_progress(plan_id)), Delete(paths.plan(plan_id)))

    async def _multi(self, *operations: Operation) -> None:
        try:
            await self._leadership.write(self._store, *operations)
        except MultiFailed as error:
            if isinstance(error.cause, NodeExists):
                raise OrderConflict(f"{error.path} exists already") from error
            if isinstance(error.cause, NoNode):
                raise error.cause from error
            raise
