"""The controller's transitions on their way to the journals and the log."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.model.steps import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.machines import PartitionStage
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.transitions import Transition
from broker_ctl.core.partitions.values import NO_LEADER, LeaderAndIsr
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.ports import TransitionJournal

log = logging.getLogger(__name__)

_BATCH: Final = 500
# Of many that change at once a few tell it; the journals have all.
_SHOWN: Final = 10


class Record:
    """Gathers what was changed, and writes it down when the instructions are on their way."""

    def __init__(
        self,
        journals: Sequence[TransitionJournal],
        context: Context,
        clock: Clock,
        instruments: ControllerInstruments,
    ) -> None:
        self._journals = journals
        self._instruments = instruments
        self._context = context
        self._clock = clock
        self._noted: list[tuple[TopicPartition, LeaderAndIsr | None, LeaderAndIsr]] = []

    def note(
        self, partition: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr
    ) -> None:
        """One change that was written."""
        if before is not None and after.leader not in (NO_LEADER, *before.isr):
            log.warning("%s: unclean election of %d", partition, after.leader)
            self._instruments.unclean_elections.add()
        self._noted.append((partition, before, after))

    async def write(self, reason: str) -> None:
        """Hand on all that was noted, and log which leaders changed."""
        noted, self._noted = self._noted, []
        told = 0
        for chunk in batched(noted, _BATCH):
            rows = [self._row(*each, reason) for each in chunk]
            for journal in self._journals:
                journal.record_transitions(self._context.epoch, self._clock.wall_ms(), rows)
            for row in rows:
                if row.leader != row.former:
                    told += 1
                    if told <= _SHOWN:
                        _tell(row)
            await asyncio.sleep(0)
        if told > _SHOWN:
            log.info("%s: %d partitions more have another leader", reason, told - _SHOWN)

    def _row(
        self,
        partition: TopicPartition,
        before: LeaderAndIsr | None,
        after: LeaderAndIsr,
        reason: str,
    ) -> Transition:
        # As seen with the brokers that live now.
        live = self._context.brokers
        online, offline = PartitionStage.ONLINE, PartitionStage.OFFLINE
        was, former = PartitionStage.NEW, NO_LEADER
        if before is not None:
            was, former = online if before.leader in live else offline, before.leader
        stage = online if after.leader in live else offline
        return Transition(
            partition, was, stage, after.leader, after.leader_epoch, after.isr, reason, former
        )


def _tell(row: Transition) -> None:
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
