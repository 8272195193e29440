"""Requests of operators and brokers to the controller, and reads answered from its memory."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from broker_ctl.controller.admin import views
from broker_ctl.controller.procedures.controlled_shutdown import ControlledShutdowns
from broker_ctl.controller.procedures.preferred_election import (
    PreferredLeaderElection,
)
from broker_ctl.controller.procedures.procedure import (
    ControllerContext,
    Procedure,
    Targets,
    check_partition,
    check_reassigning,
    check_targets,
    check_topic,
    leader_of,
    origins_of,
    replanned,
)
from broker_ctl.controller.procedures.reassignment import Reassignments
from broker_ctl.controller.procedures.topic_changes import (
    Replicas,
    TopicAdoption,
    TopicConfiguration,
    TopicCreation,
)
from broker_ctl.controller.procedures.topic_deletion import TopicDeletions
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions.values import RuleChanges, TopicPartition, TopicRules
from broker_ctl.errors import (
    Fenced,
    NoController,
)

# What operators ask about topics and partitions, answered at once from memory.


# Transitions of a partition that its explanation has.
_EXPLAINED: Final = 10


class ControllerReads:
    """Reads of one term of the controller; answers are plain JSON values."""

    def __init__(self, controller: ControllerContext) -> None:
        self._controller = controller
        self._context = controller.context

    def describe(self, topic: str) -> Mapping[str, Any]:
        """A topic, partition by partition; see `views.description`.

        Raises:
            TopicMissing: there is no such topic.
        """
        check_topic(self._context, topic)
        return views.description(self._context, topic)

    def explain(self, topic: str, partition: int) -> Reply:
        """Why a partition has its leader, with its newest transitions; see `views.explanation`.

        Raises:
            TopicMissing: there is no such partition.
        """
        named = TopicPartition(topic, partition)
        check_partition(self._context, named)
        changes = self.transitions(topic, partition, _EXPLAINED)
        return {**views.explanation(self._context, named), "changes": changes}

    def reassignments(self) -> list[dict[str, Any]]:
        """The partitions being reassigned; see `views.reassignment_row`."""
        moving = sorted(self._context.reassigning)
        return [views.reassignment_row(self._context, each) for each in moving]

    def transitions(
        self, topic: str | None, partition: int | None, limit: int
    ) -> list[dict[str, Any]]:
        """Transitions of this daemon's terms, newest first; None selects all."""
        newest = self._controller.recent.newest(topic, partition, limit)
        return [views.transition_row(*each) for each in newest]


# Requests of operators and brokers to the controller.
#
# Reads are answered at once from memory. Changes are validated, queued as events and validated
# again when handled, while nothing else runs. A dry run uses the same validation.


T = TypeVar("T")

# Timeout of a change, time in the queue included; after it the outcome is unknown.
_CALL_TIMEOUT_S: Final = 60.0


class ControllerOperations(ControllerReads):
    """Replicated topics, in one term of the controller; answers are plain JSON values.

    With ``is_dry_run`` a request is validated and answered as usual, but nothing is written.
    Brokers are named by number, -1 means no leader, and a partition's row has at least ``topic``
    and ``partition``.

    Args:
        broker_id: of the controller.
        rng: for the ids of topics.
    """

    def __init__(self, controller: ControllerContext, broker_id: int, rng: random.Random) -> None:
        super().__init__(controller)
        self._broker_id = broker_id
        self._creation = TopicCreation(controller, rng)
        self._configuration = TopicConfiguration(controller)
        self._deletions = TopicDeletions(controller)
        self._adoption = TopicAdoption(controller, self._deletions, rng)
        self._reassignments = Reassignments(controller)
        self._preferred = PreferredLeaderElection(controller)
        self._shutdowns = ControlledShutdowns(controller)

    @property
    def procedures(self) -> Sequence[Procedure]:
        """In the order of notification: reassignments skip topics that are being deleted."""
        return self._deletions, self._reassignments, self._preferred

    async def _enqueue(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        """Run a change as an event."""
        try:
            async with asyncio.timeout(_CALL_TIMEOUT_S):
                return await self._controller.events.call(name, act)
        except TimeoutError:
            raise NoController(
                f"{name}: not done within {_CALL_TIMEOUT_S:.0f} s; it may still be executed"
            ) from None

    # Reads.

    def overview(self) -> Mapping[str, Any]:
        """The controller, with its brokers and counts; see `views.overview`."""
        counts = {"queue": len(self._controller.events), "watches": len(self._controller.watches)}
        return {**views.overview(self._context, self._broker_id), **counts}

    def topics(self) -> list[dict[str, Any]]:
        """All topics, with counts of their partitions; see `views.topic_row`."""
        known = [views.topic_row(self._context, name) for name in self._context.topics]
        ending = [views.ending_row(row) for row in self._deletions.rows()]
        return sorted([*known, *ending], key=lambda row: str(row["topic"]))

    # Topics.

    def spread(self, partitions: int, replication_factor: int) -> Replicas:
        """Replicas for the partitions of a new topic, evenly over the live brokers.

        Raises:
            InvalidReplicas: there are fewer live brokers than replicas.
        """
        return self._creation.spread(partitions, replication_factor)

    async def create_topic(
        self, topic: str, replicas: Replicas, rules: TopicRules, *, is_dry_run: bool
    ) -> Reply:
        """Create a topic; returns its partitions once they have been initialised.

        Raises:
            TopicExists, InvalidReplicas, OrderConflict (there are too many topics): as named.
        """

        async def create() -> None:
            self._creation.check_new(topic, replicas, rules)
            await self._creation.create(topic, replicas, rules)

        self._creation.check_new(topic, replicas, rules)
        if not is_dry_run:
            await self._enqueue("create topic", create)
        return views.created_rows(topic, replicas)

    async def grow_topic(
        self, topic: str, partitions: int, replicas: Replicas, *, is_dry_run: bool
    ) -> Reply:
        """Grow a topic to ``partitions`` in all, spreading the new ones; returns these.

        Raises:
            TopicMissing, TopicExists (it is being deleted), InvalidReplicas: as named.
        """

        async def grow() -> Replicas:
            new = self._creation.grown(topic, partitions, replicas)
            await self._creation.grow(topic, new)
            return new

        new = self._creation.grown(topic, partitions, replicas)
        if not is_dry_run:
            new = await self._enqueue("grow topic", grow)
        return views.created_rows(topic, new)

    async def alter_topic(self, topic: str, changes: RuleChanges, *, is_dry_run: bool) -> Reply:
        """Change the configuration of a topic; other keys keep their values.

        Raises:
            TopicMissing, InvalidReplicas, OrderConflict (its configuration cannot be read).
        """
        reply = await self._configuration.judge(topic, changes)
        if not is_dry_run:
            reply = await self._enqueue(
                "alter topic", lambda: self._configuration.alter(topic, changes)
            )
        return reply

    async def adopt_topic(self, topic: str, topic_id: str | None, *, is_dry_run: bool) -> Reply:
        """Assign the id that a topic's node lacks, None: a new one; then elect its leaders.

        Raises:
            TopicMissing, OrderConflict (it has an id, or another has this one): as named.
        """
        if is_dry_run:
            return await self._adoption.judge(topic, topic_id)
        return await self._enqueue("adopt topic", lambda: self._adoption.adopt(topic, topic_id))

    async def delete_topic(self, topic: str, *, is_dry_run: bool) -> Reply:
        """Request a topic's deletion, which completes once all live replicas are removed.

        Raises:
            TopicMissing: there is no such topic.
        """

        async def delete() -> None:
            check_topic(self._context, topic)
            await self._deletions.request(topic)

        check_topic(self._context, topic)
        reply = {"topic": topic, "partitions": len(self._context.topics[topic].partitions)}
        if not is_dry_run:
            await self._enqueue("delete topic", delete)
        return reply

    # Reassignments.

    def plan_reassignment(self, topics: list[str], brokers: list[int]) -> Mapping[str, Any]:
        """Spread the partitions of the topics evenly over the brokers; returns the changes.

        Raises:
            TopicMissing, InvalidReplicas: as named.
        """
        changed = replanned(self._context, topics, brokers)
        return {"version": 1, "partitions": views.moved_rows(self._context, changed)}

    async def reassign(
        self, targets: Targets, throttle: int | None = None, *, is_dry_run: bool
    ) -> Reply:
        """Start to reassign partitions, each by itself; a pending reassignment is replaced.

        ``throttle`` is the most bytes a second that each broker spends on replicas that are added,
        until no reassignment is in progress.

        Raises:
            TopicMissing, InvalidReplicas: nothing was started.
        """

        async def begin() -> None:
            check_targets(self._context, targets)
            await self._reassignments.request(targets, throttle)

        check_targets(self._context, targets)
        reply = views.started(self._context, targets, throttle)
        if not is_dry_run:
            await self._enqueue("reassign", begin)
        return reply

    async def throttle_reassignments(self, rate: int | None, *, is_dry_run: bool) -> Reply:
        """Change the throttle of the reassignments in progress; None: no limit.

        Raises:
            ReassignmentMissing: none is in progress.
        """

        async def throttle() -> None:
            check_reassigning(self._context)
            await self._reassignments.throttle.put(rate)

        check_reassigning(self._context)
        reply = views.throttle_row(self._context, rate)
        if not is_dry_run:
            await self._enqueue("throttle reassignments", throttle)
        return reply

    async def cancel_reassignment(
        self, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """Return partitions to their original replicas; none named: all. Answers as `reassign`.

        Raises:
            ReassignmentMissing: one of them is not being reassigned.
        """

        async def cancel() -> None:
            await self._reassignments.request(origins_of(self._context, partitions))

        origins = origins_of(self._context, partitions)
        reply = {"partitions": views.moved_rows(self._context, sorted(origins.items()))}
        if not is_dry_run:
            await self._enqueue("cancel reassignment", cancel)
        return reply

    # Leaders.

    async def elect(
        self, kind: str, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """Elect leaders, ``preferred`` or ``unclean``; no partitions: all that would change.

        Raises:
            TopicMissing: a partition that does not exist. InvalidReplicas: unclean, and none named.
        """
        self._preferred.check(kind, partitions)

        async def elect() -> list[dict[str, Any]]:
            chosen = partitions or self._preferred.candidates()
            before = {each: leader_of(self._context, each) for each in chosen}
            outcomes = await self._preferred.elect(kind, chosen)
            return [views.election_row(each, before[each], outcomes[each]) for each in chosen]

        if not is_dry_run:
            return {"kind": kind, "partitions": await self._enqueue(f"{kind} election", elect)}
        outlook = [
            (each, leader_of(self._context, each), self._preferred.judge(kind, each))
            for each in partitions or self._preferred.candidates()
        ]
        return {"kind": kind, "partitions": [views.election_row(*each) for each in outlook]}

    async def shut_down(self, broker_id: int, broker_epoch: int, *, is_forced: bool) -> Reply:
        """Move a broker's leaderships away and remove it from the ISRs, as it is about to stop.

        Unless forced, nothing is done if a partition would fall below its ``min_isr``.

        Raises:
            Fenced: the epoch is of an earlier registration of that broker.
        """

        async def shut_down() -> Reply | str:
            # `Fenced` in an event would end the term.
            fault = self._shutdowns.fault_of(broker_id, broker_epoch)
            return fault or await self._shutdowns.shut_down(broker_id, is_forced=is_forced)

        reply = await self._enqueue("controlled shutdown", shut_down)
        if isinstance(reply, str):
            raise Fenced(reply)
        return reply
