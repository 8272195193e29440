"""ISR changes requested by leaders on this broker (docs: kafka-paths, kafka-isr).

The broker writes the partition's state node by compare-and-set. If the controller wrote it first,
the leader gets the newer state. A write whose answer is lost is resolved by the next read: the node
either has the requested ISR or does not (KAFKA-14144).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.core.partitions.elections import with_isr
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import LeaderAndIsr
from broker_ctl.dataplane.webhook.replicas import IsrAnswer, IsrProposal, ReplicaPlane
from broker_ctl.errors import CorruptRecord, StoreError
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_state, encode_state

log = logging.getLogger(__name__)

_States = dict[TopicPartition, LeaderAndIsr | None]

# Writes in flight at once; the store sends them in a few batches.
_IN_FLIGHT: Final = 256


class IsrChanges:
    """Asks the data plane for ISR changes, and writes them.

    Args:
        lag_time_s: seconds after which a lagging follower leaves the ISR.
        removals: see `KnownReplicas`.
        throttle: bytes a second for replicas that reassignments add; None: no limit.

    Attributes:
        expanded, shrunk: number of ISR changes written.
        refused: number of requests that a newer state overtook, or that could not be written.
    """

    def __init__(
        self,
        store: MetadataStore,
        plane: ReplicaPlane,
        broker_id: int,
        lag_time_s: float,
        *,
        removals: Callable[[], int],
        throttle: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._store = store
        self._plane = plane
        self._broker_id = broker_id
        self._lag_time_s = lag_time_s
        self._removals = removals
        self._throttle = throttle
        self.expanded = 0
        self.shrunk = 0
        self.refused = 0

    async def settle(self) -> int:
        """Write the ISR changes that are possible now; returns the number of requests.

        A topic may have been deleted, and made again by its name, since the leaders were asked:
        leader epoch and version can be those of the former one. No topic is gone before this
        broker has removed its replicas: after a removal nothing is written or answered.

        Raises:
            DataPlaneError, StoreError: the leader repeats the requests that got no answer.
        """
        removals = self._removals()
        proposals = await self._plane.isr_proposals(self._lag_time_s, self._throttle())
        if not proposals:
            return 0
        known = await self._read(proposals)
        open_proposals = [
            proposal for proposal in proposals if self._is_open(proposal, known[proposal.partition])
        ]
        written = await self._write(open_proposals, known, removals)
        # The states after successful writes are known; all others are read again.
        doubtful = [proposal for proposal in open_proposals if proposal.partition not in written]
        known |= await self._read(doubtful)
        known |= written
        if self._removals() != removals:
            return len(proposals)
        answers = [
            self._answer(proposal, state)
            for proposal in proposals
            # A state older than the leader's comes from a server that lags behind.
            if (state := known[proposal.partition]) is None or state.version >= proposal.version
        ]
        await self._plane.answer_proposals(answers)
        return len(proposals)

    async def _read(self, proposals: Sequence[IsrProposal]) -> _States:
        paths = [partition_paths.leader_and_isr(proposal.partition) for proposal in proposals]
        states: _States = {}
        for proposal, node in zip(proposals, await self._store.get_many(paths), strict=True):
            try:
                states[proposal.partition] = None if node is None else decode_state(node)
            except CorruptRecord as error:
                log.warning("the ISR of %s cannot be read: %s", proposal.partition, error)
                states[proposal.partition] = None
        return states

    def _is_open(self, proposal: IsrProposal, state: LeaderAndIsr | None) -> bool:
        """Return whether the request would change the state, and nothing forbids it."""
        return (
            state is not None
            and state.leader == self._broker_id
            and state.leader_epoch == proposal.leader_epoch
            and state.version == proposal.version
            and state.isr != proposal.isr
            and self._broker_id in proposal.isr
        )

    async def _write(
        self, proposals: Sequence[IsrProposal], known: _States, removals: int
    ) -> _States:
        """Write the changes; returns the new states of the writes that certainly succeeded."""
        written: _States = {}
        waiting = iter(proposals)

        async def work() -> None:
            for proposal in waiting:
                if self._removals() != removals:
                    return
                state = known[proposal.partition]
                assert state is not None
                new = with_isr(state, proposal.isr)._replace(version=state.version + 1)
                path = partition_paths.leader_and_isr(proposal.partition)
                try:
                    await self._store.set(path, encode_state(new), state.version)
                except StoreError as error:
                    log.info("the ISR of %s was not written: %s", proposal.partition, error)
                    continue
                written[proposal.partition] = new
                if len(new.isr) > len(state.isr):
                    self.expanded += 1
                else:
                    self.shrunk += 1

        async with asyncio.TaskGroup() as group:
            for number in range(min(_IN_FLIGHT, len(proposals))):
                group.create_task(work(), name=f"ISR {number}")
        return written

    def _answer(self, proposal: IsrProposal, state: LeaderAndIsr | None) -> IsrAnswer:
        is_granted = (
            state is not None
            and state.leader == self._broker_id
            and state.leader_epoch == proposal.leader_epoch
            and state.isr == proposal.isr
        )
        self.refused += not is_granted
        return IsrAnswer(proposal.partition, state, is_granted)
