"""Invariants of replicated partitions in the store's transactions: I9 and, of the controller, I3.

Only the writes are judged, with their sessions and their order, and not what brokers believe. The
controller is the broker that raised the epoch last: one that has resigned, without a successor yet,
may finish.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    NO_LEADER,
    LeaderAndIsr,
    TopicPartition,
    TopicRules,
)
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.records.partitions import (
    ControllerRecord,
    decode_broker,
    decode_state,
    decode_topic_rules,
)

# A path, and what stands there now: None where it is gone.
Write = tuple[str, bytes | None]

_ELECTION: Final = paths.CONTROLLER_ELECTION
_CONFIGURATION: Final = f"{paths.TOPIC_CONFIGURATION}/"
_IDS: Final = f"{paths.BROKER_IDS}/"
_QUEUES: Final = f"{paths.STATE}/"
_NOWHERE: Final = Stat(*(0 for _ in Stat._fields))


class PartitionHistory:
    """The nodes of replicated partitions, after each transaction.

    Attributes:
        states: as they stand.
        appointed: who was made leader of a partition at which leader epoch.
        unclean: elections out of the ISR.
        epoch: of the controller.
    """

    def __init__(self) -> None:
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.appointed: dict[tuple[TopicPartition, int], int] = {}
        self.unclean = 0
        self.epoch = 0
        self._controller: int | None = None
        self._controller_node: ControllerRecord | None = None
        self._topics: set[str] = set()
        self._rules: dict[str, TopicRules] = {}
        # The session in which each broker registered last.
        self._sessions: dict[int, int] = {}

    @property
    def sessions(self) -> Mapping[int, int]:
        """The session in which each broker registered last, by id."""
        return self._sessions

    def see(self, session: int, writes: Sequence[Write]) -> Iterator[str]:
        """Take in a committed transaction of this session; yield the invariants that it breaks."""
        for path, data in writes:
            try:
                yield from self._see(session, path, data)
            except CorruptRecord as error:
                yield f"I9: {error}"
        if any(path == _ELECTION.epoch_path and data not in {None, b"0"} for path, data in writes):
            yield from self._judge_controller_epoch()

    def _see(self, session: int, path: str, data: bytes | None) -> Iterator[str]:
        if path == _ELECTION.node_path:
            self._controller_node = None if data is None else ControllerRecord.decode(path, data)
        elif path == _ELECTION.epoch_path:
            if data is None:
                # The next one is made as 0; who holds the last one is still the only controller.
                self.epoch = 0
            else:
                yield from self._raise_epoch(session, int(data))
        elif path.startswith(_IDS) and data is not None:
            broker = decode_broker(Versioned(path, data, _NOWHERE))
            self._sessions[broker.broker_id] = session
        elif path.startswith(_CONFIGURATION):
            node = None if data is None else Versioned(path, data, _NOWHERE)
            rules = DEFAULT_RULES if node is None else decode_topic_rules(node)
            self._rules[path.removeprefix(_CONFIGURATION)] = rules
        elif path.startswith(_QUEUES) and path.count("/") == _QUEUES.count("/") + 1:
            if data is not None:
                yield from self._judge_author(session, f"the instruction {path}")
        elif (topic := paths.topic_of(path)) is not None:
            yield from self._see_topic(session, topic, is_gone=data is None)
        elif (of := paths.partition_of_state(path)) is not None:
            yield from self._see_state(session, of, data)

    def _raise_epoch(self, session: int, epoch: int) -> Iterator[str]:
        if epoch <= self.epoch and epoch:
            yield f"I3: controller epoch {epoch} after {self.epoch}"
        # It is made as 0, for the first controller to raise.
        self.epoch, self._controller = epoch, session if epoch else None

    def _judge_controller_epoch(self) -> Iterator[str]:
        if self._controller_node is None:
            yield f"I3: controller epoch {self.epoch} came without a holder"
        elif self._controller_node.controller_epoch != self.epoch:
            yield f"I3: {self._controller_node} holds /controller at epoch {self.epoch}"

    def _judge_author(self, session: int, what: str) -> Iterator[str]:
        if session != self._controller:
            yield f"I3: {what} is of session 0x{session:x}, which does not control"

    def _see_topic(self, session: int, topic: str, *, is_gone: bool) -> Iterator[str]:
        if is_gone:
            self._topics.discard(topic)
            self._rules.pop(topic, None)
            return
        # Anybody may create one; what stands is the controller's.
        if topic in self._topics:
            yield from self._judge_author(session, f"the assignment of {topic}")
        self._topics.add(topic)

    def _see_state(self, session: int, of: TopicPartition, data: bytes | None) -> Iterator[str]:
        before = self.states.pop(of, None)
        if data is None:
            yield from self._judge_author(session, f"the end of {of}")
            return
        path = paths.leader_and_isr(of)
        self.states[of] = after = decode_state(Versioned(path, data, _NOWHERE))
        if before is not None and before.leader_epoch == after.leader_epoch:
            said = self._judge_leader(session, before, after)
        else:
            said = self._judge_controller(session, of, before, after)
            self.appointed[of, after.leader_epoch] = after.leader
        for what in said:
            yield f"{what}: {of}, {_short(before)} to {_short(after)}"

    def _judge_leader(
        self, session: int, before: LeaderAndIsr, after: LeaderAndIsr
    ) -> Iterator[str]:
        """The leader changes the ISR alone."""
        if before._replace(isr=after.isr, is_recovering=after.is_recovering) != after:
            yield "I9: more than the ISR was changed at one leader epoch"
        if session != self._sessions.get(before.leader):
            yield f"I9: session 0x{session:x}, which does not lead, changed the ISR"
        if after.leader not in after.isr:
            yield "I9: the leader is not in sync"
        if after.is_recovering and not before.is_recovering:
            yield "I9: it is recovering all at once"

    def _judge_controller(
        self, session: int, of: TopicPartition, before: LeaderAndIsr | None, after: LeaderAndIsr
    ) -> Iterator[str]:
        """The controller elects, at a leader epoch of its own."""
        if session != self._controller:
            yield f"I3: session 0x{session:x}, which does not control, elected"
        if after.controller_epoch != self.epoch:
            yield f"I3: it bears controller epoch {after.controller_epoch}, not {self.epoch}"
        if not after.isr:
            yield "I9: nobody is in sync"
        if after.leader not in {NO_LEADER, *after.isr}:
            yield "I9: the leader is not in sync"
        if before is None:
            return
        if after.leader_epoch < before.leader_epoch:
            yield "I9: the leader epoch falls"
        yield from self._judge_election(of, before, after)

    def _judge_election(
        self, of: TopicPartition, before: LeaderAndIsr, after: LeaderAndIsr
    ) -> Iterator[str]:
        if after.leader in {NO_LEADER, *before.isr}:
            if not set(after.isr) <= set(before.isr):
                yield "I9: who was not in sync is counted in"
            return
        self.unclean += 1
        if not self._rules.get(of.topic, DEFAULT_RULES).is_unclean_allowed:
            yield "I9: an unclean election that the topic does not allow"
        if not after.is_recovering:
            yield "I9: an unclean election that is not flagged"


def _short(state: LeaderAndIsr | None) -> str:
    if state is None:
        return "nothing"
    return f"{state.leader}@{state.leader_epoch} {list(state.isr)}"
