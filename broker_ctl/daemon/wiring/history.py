"""Recording of the history of this daemon, if one is configured."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final

from broker_ctl.balancer.context.decisions import LeaderHistory
from broker_ctl.broker.history import History, HistoryAuthor, SegmentRules
from broker_ctl.broker.ownership.held_bundles import OwnershipChange
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.codec import encode
from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.history.row_kinds import (
    AUDIT_EVENTS,
    LEADER_EPOCHS,
    OWNERSHIP_CHANGES,
    PARTITION_TRANSITIONS,
    SESSION_EVENTS,
)
from broker_ctl.core.history.rows import (
    AuditEventRow,
    ElectionName,
    LeaderEpochRow,
    OwnershipChangeRow,
    PartitionTransitionRow,
    PolicyVersionRow,
    RowJournal,
    SessionEventRow,
)
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.core.partitions.values import Transition
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.instruments.clients import HistoryInstruments
from broker_ctl.security.audit.event import AuditEvent, EventKind
from broker_ctl.settings.root import DECLARATIONS, Settings

_MIB: Final = 1024 * 1024
# Subjects of settings that influence the leader's decisions.
_STEERING: Final = frozenset(
    {
        "load_report",
        "balancing",
        "shedding",
        "shedders",
        "placement",
        "planner",
        "slow_brokers",
        "splitting",
    }
)

_AUDITED: Final = frozenset({EventKind.CHANGE, EventKind.REFUSAL})

Lead = Callable[[Leadership], Coroutine[Any, Any, None]]


def build_history(base: Foundation) -> History | None:
    """Build the history, and record session events in it; None if it is not configured."""
    settings = base.settings.history
    if settings.directory is None:
        return None
    rules = SegmentRules(
        settings.segment_max_bytes,
        settings.segment_max_s,
        settings.max_mib * _MIB,
        settings.max_segments,
    )
    author = HistoryAuthor(base.settings.broker.cluster_name, base.urls.broker_id, base.nonce)
    history = History(settings.directory, author, base.clock, rules=rules)
    watcher = base.watcher

    def record(action: SessionAction) -> None:
        row = SessionEventRow(action.value, watcher.state.value, watcher.epoch)
        history.record_rows(SESSION_EVENTS, [row])

    watcher.listen(record)
    base.audit.observe(audit_recorder(history))
    return history


def audit_recorder(history: RowJournal) -> Callable[[AuditEvent], None]:
    """A listener that records changes and refusals."""

    def record(event: AuditEvent) -> None:
        if event.kind not in _AUDITED:
            return
        row = event.row()
        texts = {name: row.get(name, "") for name in AuditEventRow._fields}
        known = {"event": event.kind.value, "requests": event.count or 1}
        history.record_rows(AUDIT_EVENTS, [AuditEventRow(**(texts | known))], at_ms=event.at_ms)

    return record


def owner_change_recorder(
    history: RowJournal | None, watcher: SessionWatcher
) -> Callable[[OwnershipChange], None] | None:
    """A listener that records bundles acquired and lost by this broker."""
    if history is None:
        return None

    def record(change: OwnershipChange) -> None:
        row = OwnershipChangeRow(
            str(change.bundle), change.is_acquired, change.cause.value, change.token, watcher.epoch
        )
        history.record_rows(OWNERSHIP_CHANGES, [row])

    return record


def recording(history: RowJournal | None, election: ElectionName, lead: Lead) -> Lead:
    """Wrap ``lead`` so that its start and end are recorded."""
    if history is None:
        return lead

    async def lead_recorded(leadership: Leadership) -> None:
        begin, end = (
            LeaderEpochRow(election, is_begin=True),
            LeaderEpochRow(election, is_begin=False),
        )
        history.record_rows(LEADER_EPOCHS, [begin], epoch=leadership.epoch)
        detail = "it failed"
        try:
            await lead(leadership)
            detail = "another leader was met, or the authority was lost"
        except asyncio.CancelledError:
            detail = "resigned, or the session has ended"
            raise
        finally:
            row = end._replace(detail=detail)
            history.record_rows(LEADER_EPOCHS, [row], epoch=leadership.epoch)

    return lead_recorded


class PartitionHistory:
    """`RecordTransitions` of the controller; without a history nothing is recorded."""

    def __init__(self, history: RowJournal | None) -> None:
        self._history = history

    def record_transitions(self, epoch: int, at_ms: int, transitions: Sequence[Transition]) -> None:
        """Record what the controller of ``epoch`` has changed."""
        if self._history is None:
            return
        rows = [
            PartitionTransitionRow(
                each.partition.topic,
                each.partition.partition,
                each.before.value,
                each.after.value,
                each.leader,
                each.leader_epoch,
                each.isr,
                each.reason,
            )
            for each in transitions
        ]
        self._history.record_rows(PARTITION_TRANSITIONS, rows, epoch=epoch, at_ms=at_ms)


def leader_history(
    history: RowJournal | None, configuration: DynamicConfiguration
) -> LeaderHistory | None:
    """The leader's part of the history."""
    if history is None:
        return None
    return LeaderHistory(history, configuration.derive(policy_version))


def policy_version(settings: Settings) -> PolicyVersionRow:
    """The policy by which the leader decides."""
    texts = {
        key: settings.text(key)
        for key, declaration in sorted(DECLARATIONS.items())
        if declaration.subject in _STEERING
    }
    written = encode(texts)
    is_shedding = settings.balancing.enabled and settings.shedding.enabled
    return PolicyVersionRow(
        policy_hash=sha256(written).hexdigest(),
        load_manager=settings.text("loadManagerClassName"),
        shedding=settings.text("loadBalancerLoadSheddingStrategy") if is_shedding else "",
        placement=settings.text("loadBalancerLoadPlacementStrategy"),
        settings=written.decode(),
        release=version("broker-ctl"),
    )


def bind_history(instruments: HistoryInstruments, history: History | None) -> None:
    """Bind the instruments of the history."""
    if history is None:
        return
    instruments.rows.bind(lambda: history.written)
    instruments.dropped.bind(lambda: history.dropped)
    instruments.removed.bind(lambda: history.removed_segments)
    instruments.queued_bytes.bind(lambda: history.queued_bytes)
    instruments.segments.bind(lambda: history.segments)
    instruments.size_bytes.bind(lambda: history.size_bytes)
