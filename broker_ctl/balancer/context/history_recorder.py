"""Records the leader's view and memory of each cycle in the history."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from broker_ctl.codec import encode
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.history.catalog import POLICY_MEMORY, POLICY_VERSIONS
from broker_ctl.core.history.cycle_rows import NOTHING_REPORTED, memory_in_bounds, rows_of_view
from broker_ctl.core.history.journal import RowJournal
from broker_ctl.core.history.leadership import PolicyMemoryRow, PolicyVersionRow
from broker_ctl.core.strategies.shedding.policy import Memory


@dataclass(frozen=True, slots=True)
class LeaderHistory:
    """The history of the leader's rows, and the policy that it records.

    Attributes:
        policy: called in each cycle.
    """

    rows: RowJournal
    policy: Callable[[], PolicyVersionRow]


class HistoryRecorder:
    """Records one term; rows that stay valid until changed are repeated in each term."""

    def __init__(self, history: LeaderHistory, epoch: int) -> None:
        self._history = history
        self._epoch = epoch
        self._recorded = NOTHING_REPORTED
        self._policy: PolicyVersionRow | None = None

    async def record_view(self, view: ClusterView, cycle: int) -> None:
        """Record the view of a cycle; yields to the event loop every few hundred bundles.

        The view does not change meanwhile; rows of other kinds may be written between its rows.
        """
        rows, at_ms = self._history.rows, view.taken_at_ms
        policy = self._history.policy()
        if policy != self._policy:
            self._policy = policy
            rows.record_rows(POLICY_VERSIONS, [policy], epoch=self._epoch, cycle=cycle, at_ms=at_ms)
        seen = rows_of_view(self._recorded, view)
        while True:
            try:
                batch = next(seen)
            except StopIteration as stop:
                self._recorded = stop.value
                return
            rows.record_rows(batch.kind, batch.rows, epoch=self._epoch, cycle=cycle, at_ms=at_ms)
            await asyncio.sleep(0)

    def record_memory(self, memory: Memory, view: ClusterView, cycle: int) -> None:
        """Record the memory of the shedding strategy after a cycle."""
        kept, is_whole = memory_in_bounds(memory, len(view.bundles))
        row = PolicyMemoryRow(encode(kept).decode(), is_whole)
        self._history.rows.record_rows(
            POLICY_MEMORY, [row], epoch=self._epoch, cycle=cycle, at_ms=view.taken_at_ms
        )
