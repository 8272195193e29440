"""Records the controller's transitions in the journals and the log."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.machines import PartitionStage
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.transitions import Transition
from broker_ctl.core.partitions.values import NO_LEADER, LeaderAndIsr
from broker_ctl.instruments.partitions import ControllerInstruments

log = logging.getLogger(__name__)

_BATCH: Final = 500
# Writes down what the controller of an epoch has changed, and when; never blocks, never raises.
RecordTransitions = Callable[[int, int, Sequence[Transition]], None]
# Transitions logged one by one; the journals have all.
_MAX_LOGGED: Final = 10


class TransitionRecorder:
    """Collects changes, and records them after their instructions were sent."""

    def __init__(
        self,
        journals: Sequence[RecordTransitions],
        context: Context,
        clock: Clock,
        instruments: ControllerInstruments,
    ) -> None:
        self._journals = journals
        self._instruments = instruments
        self._context = context
        self._clock = clock
        self._pending: list[tuple[TopicPartition, LeaderAndIsr | None, LeaderAndIsr]] = []

    def add(
        self, partition: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr
    ) -> None:
        """Add one change that was written."""
        if before is not None and after.leader not in (NO_LEADER, *before.isr):
            log.warning("%s: unclean election of %d", partition, after.leader)
            self._instruments.unclean_elections.add()
        self._pending.append((partition, before, after))

    async def write(self, reason: str) -> None:
        """Record all collected changes, and log which leaders changed."""
        pending, self._pending = self._pending, []
        leader_changes = 0
        for chunk in batched(pending, _BATCH):
            rows = [self._row(*each, reason) for each in chunk]
            for record in self._journals:
                record(self._context.epoch, self._clock.wall_ms(), rows)
            for row in rows:
                if row.leader != row.former:
                    leader_changes += 1
                    if leader_changes <= _MAX_LOGGED:
                        _log_transition(row)
            await asyncio.sleep(0)
        if leader_changes > _MAX_LOGGED:
            log.info(
                "%s: %d more partitions have a new leader", reason, leader_changes - _MAX_LOGGED
            )

    def _row(
        self,
        partition: TopicPartition,
        before: LeaderAndIsr | None,
        after: LeaderAndIsr,
        reason: str,
    ) -> Transition:
        # Judged by the brokers that are live now.
        live = self._context.brokers
        online, offline = PartitionStage.ONLINE, PartitionStage.OFFLINE
        was, former = PartitionStage.NEW, NO_LEADER
        if before is not None:
            was, former = online if before.leader in live else offline, before.leader
        stage = online if after.leader in live else offline
        return Transition(
            partition, was, stage, after.leader, after.leader_epoch, after.isr, reason, former
        )


def _log_transition(row: Transition) -> None:
    log.log(
        logging.WARNING if row.leader == NO_LEADER else logging.INFO,
        "%s: leader %s -> %s at leader epoch %d, in sync %s (%s)",
        row.partition,
        "none" if row.former == NO_LEADER else row.former,
        "none" if row.leader == NO_LEADER else row.leader,
        row.leader_epoch,
        ",".join(map(str, row.isr)),
        row.reason,
    )
