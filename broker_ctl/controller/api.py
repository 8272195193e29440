"""What the partition controller offers to the API, as a protocol: tests replace it."""

from collections.abc import Mapping
from typing import Any, Protocol

from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import RuleChanges, TopicRules

# Broker ids by number of a partition, and by partition.
Replicas = Mapping[int, tuple[int, ...]]
Targets = Mapping[TopicPartition, tuple[int, ...]]


class ControllerAdmin(Protocol):
    """Replicated topics, at the controller; answers are plain JSON values.

    With ``is_dry_run`` all is validated and answered as usual, and nothing is written. Brokers
    are their numbers, -1 is no leader, and a partition's row has at least ``topic`` and
    ``partition``.
    """

    def overview(self) -> Mapping[str, Any]:
        """The controller, with counts of all that there is.

        ``{broker, epoch, topics, partitions, offline, under_replicated, under_min_isr,
        not_preferred, reassigning, deleting, queue, watches, brokers: [{broker, address, daemon,
        epoch, state, leaders, replicas}]}``; of a broker that is dead, and has replicas, address,
        daemon and epoch are null.
        """

    def topics(self) -> list[dict[str, Any]]:
        """All topics, with counts of their partitions.

        ``{topic, topic_id, partitions, offline, under_replicated, under_min_isr, reassigning,
        is_deleting}``
        """

    def describe(self, topic: str) -> Mapping[str, Any]:
        """A topic, partition by partition.

        ``{topic, topic_id, min_isr, unclean, is_deleting, partitions: [{topic, partition, replicas,
        leader, isr, leader_epoch, controller_epoch, is_recovering, adding, removing}]}``

        Raises:
            TopicMissing: there is none.
        """

    def transitions(
        self, topic: str | None, partition: int | None, limit: int
    ) -> list[dict[str, Any]]:
        """What this daemon has changed while it controlled, newest first; None: of all.

        ``{at_ms, controller_epoch, topic, partition, before, leader, leader_epoch, isr, reason}``
        """

    async def create_topic(
        self, topic: str, replicas: Replicas, rules: TopicRules, *, is_dry_run: bool
    ) -> Reply:
        """Make a topic; returns when its partitions have been initialised.

        ``{topic, partitions: [{topic, partition, replicas}]}``: the new ones.

        Raises:
            TopicExists, InvalidReplicas, OrderConflict (there are too many topics): as named.
        """

    def spread(self, partitions: int, replication_factor: int) -> Replicas:
        """Replicas for the partitions of a new topic, evenly over the live brokers.

        Raises:
            InvalidReplicas: there are fewer live brokers than a partition wants replicas.
        """

    async def grow_topic(
        self, topic: str, partitions: int, replicas: Replicas, *, is_dry_run: bool
    ) -> Reply:
        """Give a topic more, ``partitions`` in all, and spread the rest; answers as `create_topic`.

        Raises:
            TopicMissing, TopicExists (it is being deleted), InvalidReplicas: as named.
        """

    async def alter_topic(self, topic: str, changes: RuleChanges, *, is_dry_run: bool) -> Reply:
        """Change the configuration of a topic; keys that are not named stay.

        ``{topic, before: {min_isr, unclean}, after: {min_isr, unclean}, under_min_isr}``

        Raises:
            TopicMissing, InvalidReplicas, OrderConflict (its configuration cannot be read).
        """

    async def adopt_topic(self, topic: str, topic_id: str | None, *, is_dry_run: bool) -> Reply:
        """Give a topic the id that its node lacks, None: a new one; then it is led.

        ``{topic, topic_id, brokers, dead, partitions: [{topic, partition, replicas, state, leader,
        isr, leader_epoch}]}``: how it was led by the states of kafka, broker-ctl, or none.

        Raises:
            TopicMissing, OrderConflict (it has an id, or another has this one): as named.
        """

    async def delete_topic(self, topic: str, *, is_dry_run: bool) -> Reply:
        """Ask for a topic's end, which comes when every replica that lives is gone.

        ``{topic, partitions: COUNT}``

        Raises:
            TopicMissing: there is none.
        """

    def plan_reassignment(self, topics: list[str], brokers: list[int]) -> Mapping[str, Any]:
        """Replicas for all partitions of the topics, evenly over the brokers, moving few.

        ``{version: 1, partitions: [{topic, partition, replicas, before}]}``: those that change.

        Raises:
            TopicMissing, InvalidReplicas: as named.
        """

    async def reassign(self, targets: Targets, *, is_dry_run: bool) -> Reply:
        """Begin to move partitions, each by itself; one under way is overridden.

        ``{partitions: [{topic, partition, replicas, before}]}``

        Raises:
            TopicMissing, InvalidReplicas: nothing was begun.
        """

    async def cancel_reassignment(
        self, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """Go back to where they were; none: all that are under way. Answers as `reassign`.

        Raises:
            ReassignmentMissing: one of them is not under way.
        """

    def reassignments(self) -> list[dict[str, Any]]:
        """Under way: ``{topic, partition, replicas, adding, removing, isr, missing}``."""

    async def elect(
        self, kind: str, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """Elect leaders, ``preferred`` or ``unclean``; no partitions: all that would change.

        Unclean elections need their partitions named. ``reason`` is why no other was elected.
        ``{kind, partitions: [{topic, partition, before, leader, reason}]}``

        Raises:
            TopicMissing: a partition that does not exist. InvalidReplicas: unclean, and none named.
        """

    async def shut_down(self, broker_id: int, broker_epoch: int, *, is_forced: bool) -> Reply:
        """Take a broker's leaderships and ISR memberships away, as it is about to stop.

        Not forced, nothing is done where a partition would have fewer in sync than it asks for.
        ``{broker, is_done, led: [[TOPIC, PARTITION]], reason}``: what it still leads.

        Raises:
            Fenced: the epoch is of an earlier life of that broker.
        """
