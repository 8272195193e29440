"""Procedures that span many events, and what they share: timers, parents, checks of names."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.clock import Clock
from broker_ctl.controller.event_queue import EventQueue
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.state.transitions import RecentTransitions
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.reassigning import fault_of, fault_of_target, replan
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    BrokersChanged,
    ControllerRules,
    TopicPartition,
)
from broker_ctl.errors import (
    InvalidReplicas,
    MultiFailed,
    NodeExists,
    ReassignmentMissing,
    TopicMissing,
)
from broker_ctl.store.interface import Create, MetadataStore
from broker_ctl.tasks import TaskScope

# Procedures that span many events: reassignments, deletions, shutdowns, preferred leaders.
#
# No procedure keeps state that a crash may lose: `resume` finds procedures under way in the store
# and the context. All methods are called by the one consumer of events, one after another; an
# error is logged, and the other procedures are still notified.


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Dependencies of the procedures of one term.

    Attributes:
        store: to read; what is written goes through ``state_changer``.
        rules: called at each use, because the rules may change at run time.
        tasks: for timers, which end with the term and queue events.
        watches: watches of the controller.
        recent: transitions of this term and of earlier ones on this broker.
    """

    store: MetadataStore
    context: Context
    state_changer: StateChanger
    events: EventQueue
    clock: Clock
    rules: Callable[[], ControllerRules]
    tasks: TaskScope
    watches: Sized
    recent: RecentTransitions


class Procedure(Protocol):
    """A procedure in one term."""

    async def resume(self) -> None:
        """Continue what is under way; called once at the start of a term."""
        ...

    async def on_requests_changed(self) -> None:
        """Nodes came or went below /brokers/partitions_reassigned or /admin/delete_topics."""
        ...

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """Brokers changed; leaders are elected, and new brokers have their full instruction."""
        ...

    async def on_topics_changed(self, topics: Collection[str]) -> None:
        """Topics were created, grown or deleted; new partitions are initialised."""
        ...

    async def on_states_changed(self, partitions: Collection[TopicPartition]) -> None:
        """Leaders have changed the ISRs of these partitions."""
        ...

    async def on_stop_responses(self, answers: Sequence[StopResponse]) -> None:
        """Brokers have stopped replicas, or will not."""
        ...


# Timers that queue an event.


class Alarm:
    """A timer for one piece of work; setting it again has no effect until it fires."""

    def __init__(
        self, controller: ControllerContext, name: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        self._controller = controller
        self._name = name
        self._work = work
        self._is_set = False

    def set(self, after_s: float) -> None:
        """Run the work after ``after_s`` seconds, unless it is set already."""
        if not self._is_set:
            self._is_set = True
            self._controller.tasks.start(self._fire(after_s), self._name)

    async def _fire(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._is_set = False
        self._controller.events.enqueue_once(self._name, self._work)


# Parent nodes, created on first use.


async def make_parents(store: MetadataStore, state_changer: StateChanger, path: str) -> None:
    """Create all missing parents of ``path`` as persistent nodes, which stay when empty."""
    steps = path.split("/")[1:-1]
    for count in range(1, len(steps) + 1):
        parent = "/" + "/".join(steps[:count])
        if await store.exists(parent) is None:
            try:
                await state_changer.write([Create(parent)])
            except MultiFailed as error:
                if not isinstance(error.cause, NodeExists):
                    raise


# Checks the names in an operator's request against the controller's state.


Targets = Mapping[TopicPartition, tuple[int, ...]]


def check_topic(context: Context, topic: str) -> None:
    """Check that a topic exists.

    Raises:
        TopicMissing: there is no such topic, or it is being deleted.
    """
    if topic in context.topics:
        return
    if topic in context.deleting:
        raise TopicMissing(f"{topic} is being deleted")
    raise TopicMissing(f"there is no topic {topic}")


def check_partition(context: Context, partition: TopicPartition) -> None:
    """Check that a partition exists; raises as `check_topic`."""
    check_topic(context, partition.topic)
    if partition not in context.assignments:
        raise TopicMissing(f"there is no partition {partition}")


def check_targets(context: Context, targets: Targets) -> None:
    """Judge replicas that partitions are to have.

    Raises:
        TopicMissing, InvalidReplicas: as named.
    """
    for partition, target in targets.items():
        check_partition(context, partition)
        min_isr = context.rules_of(partition.topic).min_isr
        fault = fault_of_target(target, context.assignments[partition], context.brokers, min_isr)
        if fault is not None:
            raise InvalidReplicas(f"{partition} {fault}")


def check_reassigning(context: Context) -> None:
    """Require that a reassignment is in progress.

    Raises:
        ReassignmentMissing: there is none.
    """
    if not context.reassigning:
        raise ReassignmentMissing("no reassignment is in progress")


def origins_of(context: Context, partitions: Iterable[TopicPartition]) -> Targets:
    """Where partitions came from; none: all that are under way.

    Raises:
        ReassignmentMissing: one of them is not under way.
    """
    chosen = list(partitions) or list(context.reassigning)
    for partition in chosen:
        if partition not in context.reassigning:
            raise ReassignmentMissing(f"{partition} is not being reassigned")
    return {partition: context.assignments[partition].origin for partition in chosen}


def replanned(
    context: Context, topics: Iterable[str], brokers: Sequence[int]
) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Replicas for the partitions of topics, evenly over brokers and racks: those that change.

    Raises:
        TopicMissing, InvalidReplicas: as named.
    """
    if (fault := fault_of(brokers, context.brokers)) is not None:
        raise InvalidReplicas(f"the list of brokers {fault}")
    before: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in topics:
        check_topic(context, topic)
        for partition in context.partitions_of(topic):
            before[partition] = context.assignments[partition].target
    after = replan(before, brokers, context.racks.racks)
    return [(each, after[each]) for each in sorted(after) if after[each] != before[each]]


def leader_of(context: Context, partition: TopicPartition) -> int:
    """The leader of a partition by its state, or `NO_LEADER`."""
    state = context.states.get(partition)
    return NO_LEADER if state is None else state.leader
