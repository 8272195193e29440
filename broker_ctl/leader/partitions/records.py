"""The controller's transitions on their way to the journal."""

import asyncio
import logging
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.machines import PartitionStage
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.transitions import Transition
from broker_ctl.core.partitions.values import NO_LEADER, LeaderAndIsr
from broker_ctl.core.steps import batched
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.ports import TransitionJournal

log = logging.getLogger(__name__)

_BATCH: Final = 500


class Record:
    """Gathers what was changed, and writes it down when the instructions are on their way."""

    def __init__(
        self,
        journal: TransitionJournal,
        context: Context,
        clock: Clock,
        instruments: ControllerInstruments,
    ) -> None:
        self._journal = journal
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
        """Hand on all that was noted."""
        noted, self._noted = self._noted, []
        online, offline, new = PartitionStage.ONLINE, PartitionStage.OFFLINE, PartitionStage.NEW
        for chunk in batched(noted, _BATCH):
            # As seen with the brokers that live now.
            live = self._context.brokers
            rows = [
                Transition(
                    partition,
                    new if before is None else online if before.leader in live else offline,
                    online if after.leader in live else offline,
                    after.leader,
                    after.leader_epoch,
                    after.isr,
                    reason,
                )
                for partition, before, after in chunk
            ]
            self._journal.record_transitions(self._context.epoch, self._clock.wall_ms(), rows)
            await asyncio.sleep(0)
