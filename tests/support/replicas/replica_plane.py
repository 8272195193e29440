"""A broker process that keeps replicas without logs, and records the calls to it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from broker_ctl.core.partitions.instructions import ReplicaError, ReplicaState, ReplicaStop
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, IsrAnswer, IsrProposal
from broker_ctl.errors import DataPlaneUnreachable


class Call(NamedTuple):
    """One call: its name, and the partitions that it named."""

    name: str
    partitions: tuple[str, ...]


class InMemoryReplicas:
    """`ReplicaPlane`.

    Attributes:
        calls: all that changed something, in order.
        held: the replicas that it lists.
        leaders: the leader of each replica that leads or follows.
        brokers: addresses, from the last call of `become_follower`.
        proposals: returned by `isr_proposals` until they are answered.
        answers: all answers to proposals, in order.
        refusals: reasons by partition.
        lag_time_s, throttle: from the last call of `isr_proposals`.
        is_silent: whether no call is answered.
        loses_answers: whether calls to follow are carried out, and not answered.
        heard_instance_id: the id that the daemon knows; it learns another one from a reply.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.instance_id = self.heard_instance_id = "first"
        self._expected = ""
        self.calls: list[Call] = []
        self.held: dict[TopicPartition, HeldReplica] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.brokers: dict[int, str] = {}
        self.proposals: dict[TopicPartition, IsrProposal] = {}
        self.answers: list[IsrAnswer] = []
        self.refusals: dict[TopicPartition, str] = {}
        self.lag_time_s = 0.0
        self.throttle: int | None = None
        self.is_silent = False
        self.loses_answers = False

    @property
    def led(self) -> set[str]:
        """The partitions that it leads."""
        return {str(each) for each, leader in self.leaders.items() if leader == self.broker_id}

    def expect(self, instance_id: str) -> None:
        self._expected = instance_id

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        self._called("lead", [one.partition for one in replicas])
        return self._take(replicas)

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        self._called("follow", [one.partition for one in replicas])
        self.brokers = dict(brokers)
        errors = self._take(replicas)
        if self.loses_answers:
            raise DataPlaneUnreachable("the answer is lost")
        return errors

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        for name, is_deleted in (("delete", True), ("stop", False)):
            named = [stop.partition for stop in stops if stop.is_deleted is is_deleted]
            if named:
                self._called(name, named)
        errors = self._errors(stop.partition for stop in stops)
        for stop in stops:
            if stop.partition not in self.refusals:
                self.leaders.pop(stop.partition, None)
                if stop.is_deleted:
                    self.held.pop(stop.partition, None)
        return errors

    async def replicas(self) -> Sequence[HeldReplica]:
        self._heard()
        return list(self.held.values())

    async def isr_proposals(
        self, lag_time_s: float, throttle: int | None = None
    ) -> Sequence[IsrProposal]:
        self.lag_time_s, self.throttle = lag_time_s, throttle
        self._heard()
        return list(self.proposals.values())

    async def answer_proposals(self, answers: Sequence[IsrAnswer]) -> None:
        self._heard()
        self.answers.extend(answers)
        for answer in answers:
            self.proposals.pop(answer.partition, None)

    def fail(self, partition: TopicPartition) -> None:
        """Make a replica's log unreadable."""
        self.held[partition] = self.held[partition]._replace(is_failed=True)

    def restart(self, *, is_heard: bool = True) -> None:
        """Start another process on the same disk; the daemon has heard of it, or not yet."""
        self.instance_id += "'"
        if is_heard:
            self.heard_instance_id = self.instance_id
        self.leaders.clear()

    def _take(self, replicas: Sequence[ReplicaState]) -> list[ReplicaError]:
        for partition, topic_id, state, *_ in replicas:
            if partition not in self.refusals:
                self.held[partition] = HeldReplica(partition, topic_id, state.leader_epoch)
                self.leaders[partition] = state.leader
        return self._errors(replica.partition for replica in replicas)

    def _errors(self, partitions: Iterable[TopicPartition]) -> list[ReplicaError]:
        return [
            ReplicaError(partition, self.refusals[partition])
            for partition in partitions
            if partition in self.refusals
        ]

    def _called(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        self._heard()
        if self._expected not in {"", self.instance_id}:
            raise DataPlaneUnreachable(f"this is {self.instance_id}, not {self._expected}")
        self.calls.append(Call(name, tuple(map(str, partitions))))

    def _heard(self) -> None:
        if self.is_silent:
            raise DataPlaneUnreachable("silent")
