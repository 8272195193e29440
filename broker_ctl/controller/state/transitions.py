"""Records the controller's transitions, and keeps the newest of them for explanations."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from broker_ctl.clock import Clock
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    LeaderAndIsr,
    PartitionStage,
    TopicPartition,
    Transition,
)
from broker_ctl.instruments.partitions import ControllerInstruments

log = logging.getLogger(__name__)

# The newest transitions of partitions, to explain changes of leaders.
#
# The daemon keeps them in memory over all its terms. Transitions by other controllers are in the
# logs and histories of their daemons.


# About 3 MB; a failover of as many partitions replaces all earlier ones.
MAX_TRANSITIONS: Final = 10_000


class Recorded(NamedTuple):
    """Attributes: epoch: of the controller. at_ms: wall clock."""

    epoch: int
    at_ms: int
    transition: Transition


class RecentTransitions:
    """The newest transitions; the oldest are forgotten."""

    def __init__(self) -> None:
        self._recorded: deque[Recorded] = deque(maxlen=MAX_TRANSITIONS)

    def record_transitions(self, epoch: int, at_ms: int, transitions: Sequence[Transition]) -> None:
        """See `RecordTransitions`."""
        self._recorded.extend(Recorded(epoch, at_ms, each) for each in transitions)

    def newest(self, topic: str | None, partition: int | None, limit: int) -> Iterator[Recorded]:
        """The newest first: of a topic, of one of its partitions, or of all."""
        for recorded in reversed(self._recorded):
            named = recorded.transition.partition
            if topic in {None, named.topic} and partition in {None, named.partition}:
                if limit <= 0:
                    return
                limit -= 1
                yield recorded


# Records the controller's transitions in the journals and the log.


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
