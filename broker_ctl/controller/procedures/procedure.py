"""Procedures that span many events: reassignments, deletions, shutdowns, preferred leaders.

No procedure keeps state that a crash may lose: `resume` finds procedures under way in the store and
the context. All methods are called by the one consumer of events, one after another; an
error is logged, and the other procedures are still notified.
"""

from collections.abc import Callable, Collection, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.clock import Clock
from broker_ctl.controller.event_queue import EventQueue
from broker_ctl.controller.state.recent_transitions import RecentTransitions
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.rules import ControllerRules
from broker_ctl.core.partitions.values import BrokersChanged
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope


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
