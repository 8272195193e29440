"""Requests of operators and brokers to the controller (`ControllerAdmin`).

Reads are answered at once from memory. Changes are validated, queued as events and validated again
when handled, while nothing else runs. A dry run uses the same validation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from broker_ctl.controller.admin import views
from broker_ctl.controller.api import Replicas, Targets
from broker_ctl.controller.procedures.controlled_shutdown import ControlledShutdowns
from broker_ctl.controller.procedures.known_names import check_partition, check_topic, leader_of
from broker_ctl.controller.procedures.preferred_election import (
    KINDS,
    UNCLEAN,
    PreferredLeaderElection,
)
from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.controller.procedures.reassignment import Reassignments
from broker_ctl.controller.procedures.topic_adoption import TopicAdoption
from broker_ctl.controller.procedures.topic_configuration import TopicConfiguration
from broker_ctl.controller.procedures.topic_creation import TopicCreation
from broker_ctl.controller.procedures.topic_deletion import TopicDeletions
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.partitions.elections import Election
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.reassigning import fault_of_target
from broker_ctl.core.partitions.replanning import replan
from broker_ctl.core.partitions.replica_lists import fault_of
from broker_ctl.core.partitions.values import RuleChanges, TopicRules
from broker_ctl.errors import (
    Fenced,
    InvalidReplicas,
    NoController,
    ReassignmentMissing,
    StoreError,
)

T = TypeVar("T")

# Limit of a change, queueing included; after it the outcome is unknown.
_CALL_TIMEOUT_S: Final = 60.0


class ControllerOperations:
    """`ControllerAdmin` of one term.

    Args:
        broker_id: of the controller.
    """

    def __init__(
        self,
        controller: ControllerContext,
        broker_id: int,
        *,
        creation: TopicCreation,
        configuration: TopicConfiguration,
        adoption: TopicAdoption,
        deletions: TopicDeletions,
        reassignments: Reassignments,
        preferred: PreferredLeaderElection,
        shutdowns: ControlledShutdowns,
    ) -> None:
        self._controller = controller
        self._context = controller.context
        self._broker_id = broker_id
        self._creation = creation
        self._configuration = configuration
        self._adoption = adoption
        self._deletions = deletions
        self._reassignments = reassignments
        self._preferred = preferred
        self._shutdowns = shutdowns

    async def _enqueue(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        """Run a change as an event."""
        try:
            async with asyncio.timeout(_CALL_TIMEOUT_S):
                return await self._controller.events.call(name, act)
        except TimeoutError:
            raise NoController(
                f"{name}: not done within {_CALL_TIMEOUT_S:.0f} s; it may still be carried out"
            ) from None

    # What there is.

    def overview(self) -> Mapping[str, Any]:
        """See `ControllerAdmin`."""
        counts = {"queue": len(self._controller.events), "watches": len(self._controller.watches)}
        return {**views.overview(self._context, self._broker_id), **counts}

    def topics(self) -> list[dict[str, Any]]:
        """See `ControllerAdmin`."""
        known = [views.topic_row(self._context, name) for name in self._context.topics]
        ending = [views.ending_row(row) for row in self._deletions.rows()]
        return sorted([*known, *ending], key=lambda row: str(row["topic"]))

    def describe(self, topic: str) -> Mapping[str, Any]:
        """See `ControllerAdmin`."""
        check_topic(self._context, topic)
        return views.description(self._context, topic)

    def reassignments(self) -> list[dict[str, Any]]:
        """See `ControllerAdmin`."""
        moving = sorted(self._context.reassigning)
        return [views.reassignment_row(self._context, each) for each in moving]

    def transitions(
        self, topic: str | None, partition: int | None, limit: int
    ) -> list[dict[str, Any]]:
        """See `ControllerAdmin`."""
        newest = self._controller.recent.newest(topic, partition, limit)
        return [views.transition_row(*each) for each in newest]

    # Topics.

    def spread(self, partitions: int, replication_factor: int) -> Replicas:
        """See `ControllerAdmin`."""
        return self._creation.spread(partitions, replication_factor)

    async def create_topic(
        self, topic: str, replicas: Replicas, rules: TopicRules, *, is_dry_run: bool
    ) -> Reply:
        """See `ControllerAdmin`."""

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
        """See `ControllerAdmin`."""

        async def grow() -> Replicas:
            new = self._creation.grown(topic, partitions, replicas)
            await self._creation.grow(topic, new)
            return new

        new = self._creation.grown(topic, partitions, replicas)
        if not is_dry_run:
            new = await self._enqueue("grow topic", grow)
        return views.created_rows(topic, new)

    async def alter_topic(self, topic: str, changes: RuleChanges, *, is_dry_run: bool) -> Reply:
        """See `ControllerAdmin`."""
        reply = await self._configuration.judge(topic, changes)
        if not is_dry_run:
            reply = await self._enqueue(
                "alter topic", lambda: self._configuration.alter(topic, changes)
            )
        return reply

    async def adopt_topic(self, topic: str, topic_id: str | None, *, is_dry_run: bool) -> Reply:
        """See `ControllerAdmin`."""
        if is_dry_run:
            return await self._adoption.judge(topic, topic_id)
        return await self._enqueue("adopt topic", lambda: self._adoption.adopt(topic, topic_id))

    async def delete_topic(self, topic: str, *, is_dry_run: bool) -> Reply:
        """See `ControllerAdmin`."""

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
        """See `ControllerAdmin`."""
        fault = fault_of(brokers, self._context.brokers)
        if fault is not None:
            raise InvalidReplicas(f"the list of brokers {fault}")
        before: dict[TopicPartition, tuple[int, ...]] = {}
        for topic in topics:
            check_topic(self._context, topic)
            for partition in self._context.partitions_of(topic):
                before[partition] = self._context.assignments[partition].target
        after = replan(before, brokers)
        changed = [(each, after[each]) for each in sorted(after) if after[each] != before[each]]
        return {"version": 1, "partitions": views.moved_rows(self._context, changed)}

    async def reassign(self, targets: Targets, *, is_dry_run: bool) -> Reply:
        """See `ControllerAdmin`."""

        async def begin() -> None:
            self._check_targets(targets)
            await self._reassignments.request(targets)

        self._check_targets(targets)
        reply = {"partitions": views.moved_rows(self._context, sorted(targets.items()))}
        if not is_dry_run:
            await self._enqueue("reassign", begin)
        return reply

    async def cancel_reassignment(
        self, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """See `ControllerAdmin`."""

        async def cancel() -> None:
            await self._reassignments.request(self._origins(partitions))

        origins = self._origins(partitions)
        reply = {"partitions": views.moved_rows(self._context, sorted(origins.items()))}
        if not is_dry_run:
            await self._enqueue("cancel reassignment", cancel)
        return reply

    def _origins(self, partitions: Iterable[TopicPartition]) -> Targets:
        """Where partitions came from; none: all that are under way."""
        context = self._context
        chosen = list(partitions) or list(context.reassigning)
        for partition in chosen:
            if partition not in context.reassigning:
                raise ReassignmentMissing(f"{partition} is not being reassigned")
        return {partition: context.assignments[partition].origin for partition in chosen}

    def _check_targets(self, targets: Targets) -> None:
        context = self._context
        for partition, target in targets.items():
            check_partition(self._context, partition)
            min_isr = context.rules_of(partition.topic).min_isr
            fault = fault_of_target(
                target, context.assignments[partition], context.brokers, min_isr
            )
            if fault is not None:
                raise InvalidReplicas(f"{partition} {fault}")

    # Leaders.

    async def elect(
        self, kind: str, partitions: list[TopicPartition], *, is_dry_run: bool
    ) -> Reply:
        """See `ControllerAdmin`."""
        if kind not in KINDS:
            raise InvalidReplicas(f"{kind!r} is not an election: there are {', '.join(KINDS)}")
        if kind == UNCLEAN and not partitions:
            raise InvalidReplicas("an unclean election loses records: name its partitions")
        for partition in partitions:
            check_partition(self._context, partition)

        async def elect() -> list[dict[str, Any]]:
            chosen = partitions or self._preferred.candidates()
            before = {each: leader_of(self._context, each) for each in chosen}
            changes = await self._preferred.elect(kind, chosen)
            became: dict[TopicPartition, Election | StoreError] = {
                **changes.failed,
                **changes.refused,
                **changes.changed,
            }
            return [views.election_row(each, before[each], became[each]) for each in chosen]

        if is_dry_run:
            rows = [
                views.election_row(
                    each, leader_of(self._context, each), self._preferred.judge(kind, each)
                )
                for each in partitions or self._preferred.candidates()
            ]
        else:
            rows = await self._enqueue(f"{kind} election", elect)
        return {"kind": kind, "partitions": rows}

    async def shut_down(self, broker_id: int, broker_epoch: int, *, is_forced: bool) -> Reply:
        """See `ControllerAdmin`."""

        async def shut_down() -> Reply | str:
            # `Fenced` in an event would end the term.
            fault = self._shutdowns.fault_of(broker_id, broker_epoch)
            return fault or await self._shutdowns.shut_down(broker_id, is_forced=is_forced)

        reply = await self._enqueue("controlled shutdown", shut_down)
        if isinstance(reply, str):
            raise Fenced(reply)
        return reply
