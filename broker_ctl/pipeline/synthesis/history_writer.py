"""What the daemons of a simulated cluster would have written while a scenario was replayed."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Split
from broker_ctl.core.history.columns import RowKind
from broker_ctl.core.history.cycle_rows import (
    NOTHING_REPORTED,
    ReportedRows,
    memory_in_bounds,
    rows_of_view,
)
from broker_ctl.core.history.row_kinds import (
    BROKER_LOADS,
    DECISIONS,
    LEADER_EPOCHS,
    OWNERSHIP_CHANGES,
    POLICY_MEMORY,
    POLICY_VERSIONS,
    SESSION_EVENTS,
)
from broker_ctl.core.history.rows import (
    ElectionName,
    LeaderEpochRow,
    OwnershipCause,
    OwnershipChangeRow,
    PolicyMemoryRow,
    PolicyVersionRow,
    SessionEventRow,
    decision_row,
)
from broker_ctl.core.machines.session import SessionAction, SessionState
from broker_ctl.core.model.names import Bundle
from broker_ctl.pipeline.synthesis.segments import Moment, SegmentFiles
from broker_ctl.simulation.model.scenario import ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.replay.cluster import MoveCause, Moved, ReplayRecord, Reshaped
from broker_ctl.simulation.replay.replay import ReplayCycle

_MINUTE_MS: Final = 60_000
_DONE: Final = "done"
_FAILED: Final = "failed"
_SKIPPED: Final = "skipped"
_UNCUT: Final = "its owner found no place to cut it at"
# A moved bundle is taken for another reason than it is given up, where its broker is gone.
_CAUSES: Final = {
    MoveCause.LOAD: (OwnershipCause.TRANSFER, OwnershipCause.TRANSFER),
    MoveCause.REFILL: (OwnershipCause.TRANSFER, OwnershipCause.TRANSFER),
    MoveCause.DRAIN: (OwnershipCause.DRAIN, OwnershipCause.PLACEMENT),
    MoveCause.DEATH: (None, OwnershipCause.PLACEMENT),
}


class HistoryWriter:
    """Of one cluster, from the start of its scenario on.

    Args:
        files: where the rows go.
        start_ms: wall clock at minute 0.
        present: brokers that are there at the start, by id; the first leads.
        policy: what the leader decides by.
        move_s: from the order of a move until clients are served again.
    """

    def __init__(
        self,
        files: SegmentFiles,
        start_ms: int,
        present: Iterable[str],
        policy: PolicyVersionRow,
        move_s: float,
    ) -> None:
        self._files = files
        self._start_ms = start_ms
        self._policy = policy
        self._move_s = move_s
        self._present = sorted(present)
        self._leader = ""
        self._epoch = 0
        self._cycle = 0
        self._written: ReportedRows = NOTHING_REPORTED
        self._is_policy_written = False
        self._moves = self._splits = self._merges = 0
        # Splits whose outcome is not known yet.
        self._ordered: list[tuple[Split, Moment]] = []

    def begin(self, owners: Iterable[tuple[Bundle, str]]) -> None:
        """Sessions begin, one broker leads, and bundles come to their first owners."""
        for broker in self._present:
            self._session(broker, 0, SessionAction.BEGIN, SessionState.CONNECTED)
        self._lead(0)
        for bundle, owner in owners:
            self._change(0, owner, bundle, OwnershipCause.PLACEMENT, is_acquired=True)

    def apply_event(self, event: ScenarioEvent) -> None:
        """A broker comes or goes, and perhaps the leader with it."""
        match event.kind:
            case ScenarioEventKind.UP if event.broker_id not in self._present:
                self._present = sorted([*self._present, event.broker_id])
                self._session(
                    event.broker_id, event.minute, SessionAction.BEGIN, SessionState.CONNECTED
                )
            case ScenarioEventKind.DOWN if event.broker_id in self._present:
                # A broker that dies records no event.
                self._present.remove(event.broker_id)
                if event.broker_id == self._leader:
                    self._lead(event.minute)

    def write_cycle(self, cycle: ReplayCycle) -> None:
        """Write a cycle of the leader: its view and its decisions."""
        view = cycle.view
        at_ms = self._start_ms + round(view.taken_at_s * 1000)
        self._cycle += 1
        if not self._is_policy_written:
            self._is_policy_written = True
            self._lead_rows(POLICY_VERSIONS, [self._policy], at_ms)
        seen = rows_of_view(self._written, view)
        while True:
            try:
                batch = next(seen)
            except StopIteration as stop:
                self._written = stop.value
                break
            self._lead_rows(batch.kind, self._dated(batch.kind, batch.rows), at_ms)
        memory, is_whole = memory_in_bounds(cycle.memory, len(view.bundles))
        self._lead_rows(POLICY_MEMORY, [PolicyMemoryRow(encode(memory).decode(), is_whole)], at_ms)
        # The owner of a bundle may find nothing to cut; nothing else fails in a replay.
        late_ms = at_ms + round(self._move_s * 1000)
        splits = [each for each in cycle.plan.decisions if isinstance(each, Split)]
        moment = Moment(self._leader, late_ms, self._epoch, self._cycle)
        self._ordered += ((each, moment) for each in splits)
        others = (each for each in cycle.plan.decisions if not isinstance(each, Split))
        done = [decision_row(each, _DONE, "", self._move_s) for each in others]
        skipped = [decision_row(each, _SKIPPED, "", 0.0) for each in cycle.plan.skipped]
        self._lead_rows(DECISIONS, done, late_ms)
        self._lead_rows(DECISIONS, skipped, at_ms)

    def write_minute(self, record: ReplayRecord, owner_of: Callable[[Bundle], str | None]) -> None:
        """What has come of the last minute: bundles that changed hands, or were cut or joined.

        Args:
            record: of all minutes so far.
            owner_of: owner of a bundle now; None: unowned, or there is no such bundle.
        """
        moves = record.moves[self._moves :]
        owners_of_cut = self._write_splits(record.splits[self._splits :])
        # What was cut and moved in one minute was cut first.
        sources = {moved.bundle: moved.source for moved in reversed(moves)}
        for reshaped, cause in (
            *((each, OwnershipCause.SPLIT) for each in record.splits[self._splits :]),
            *((each, OwnershipCause.MERGE) for each in record.merges[self._merges :]),
        ):
            owners = (sources.get(each) or owner_of(each) for each in reshaped.after)
            owner = next(filter(None, owners), owners_of_cut.get(reshaped.before[0]))
            self._reshape(reshaped, cause, owner)
        for moved in moves:
            self._move(moved)
        self._splits, self._merges = len(record.splits), len(record.merges)
        self._moves = len(record.moves)

    def _write_splits(self, done: Iterable[Reshaped]) -> dict[Bundle, str]:
        """Write what became of the splits that were ordered; owners of those that were done."""
        cut = {each.before[0] for each in done}
        owners = {}
        for split, moment in self._ordered:
            if split.bundle in cut:
                owners[split.bundle] = split.owner
                row = decision_row(split, _DONE, "", self._move_s)
            else:
                row = decision_row(split, _FAILED, _UNCUT, self._move_s)
            self._files.write(DECISIONS, [row], moment)
        self._ordered = []
        return owners

    def _lead(self, minute: int) -> None:
        self._leader = self._present[0]
        self._epoch, self._cycle = self._epoch + 1, 0
        # A new epoch repeats everything.
        self._written, self._is_policy_written = NOTHING_REPORTED, False
        row = LeaderEpochRow(ElectionName.LOAD_BALANCE.value, is_begin=True, detail="")
        self._lead_rows(LEADER_EPOCHS, [row], self._at_ms(minute))

    def _dated(self, kind: RowKind[Any], rows: Any) -> Any:
        if kind is not BROKER_LOADS:
            return rows
        return [row._replace(reported_at_ms=self._start_ms + row.reported_at_ms) for row in rows]

    def _reshape(self, reshaped: Reshaped, cause: OwnershipCause, owner: str | None) -> None:
        if owner is None:
            return
        for bundle in reshaped.before:
            self._change(reshaped.minute, owner, bundle, cause, is_acquired=False)
        for bundle in reshaped.after:
            self._change(reshaped.minute, owner, bundle, cause, is_acquired=True)

    def _move(self, moved: Moved) -> None:
        given_up, taken = _CAUSES[moved.cause]
        if given_up is not None:
            self._change(moved.minute, moved.source, moved.bundle, given_up, is_acquired=False)
        late_ms = round(self._move_s * 1000)
        self._change(
            moved.minute, moved.destination, moved.bundle, taken, is_acquired=True, late_ms=late_ms
        )

    def _change(
        self,
        minute: int,
        broker: str,
        bundle: Bundle,
        cause: OwnershipCause,
        *,
        is_acquired: bool,
        late_ms: int = 0,
    ) -> None:
        row = OwnershipChangeRow(str(bundle), is_acquired, cause.value, 0, 1)
        moment = Moment(broker, self._at_ms(minute) + late_ms)
        self._files.write(OWNERSHIP_CHANGES, [row], moment)

    def _session(self, broker: str, minute: int, event: SessionAction, state: SessionState) -> None:
        row = SessionEventRow(event.value, state.value, 1)
        self._files.write(SESSION_EVENTS, [row], Moment(broker, self._at_ms(minute)))

    def _lead_rows(self, kind: RowKind[Any], rows: Any, at_ms: int) -> None:
        moment = Moment(self._leader, at_ms, self._epoch, self._cycle)
        self._files.write(kind, rows, moment)

    def _at_ms(self, minute: int) -> int:
        return self._start_ms + minute * _MINUTE_MS
