"""What runs in steps over many events: reassignments, deletions, shutdowns, preferred leaders.

Each procedure keeps nothing that a crash may lose: `resume` finds in the store and in the context
what is under way. All methods are called by the one consumer of events, one after another; an
error is logged and does not keep the others from hearing.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence, Sized
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.controller.api import ControllerAdmin
from broker_ctl.controller.state.recent_transitions import RecentTransitions
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.rules import ControllerRules
from broker_ctl.core.partitions.values import BrokersChanged
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope

T = TypeVar("T")


class Events(Protocol):
    """The one queue of the controller."""

    def __len__(self) -> int:
        """How many wait."""
        ...

    def enqueue_once(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do it when its turn comes; while one of that name waits, it is one."""
        ...

    async def call(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """The answer, when it has had its turn.

        Raises:
            NoController: this broker controls no more; whether it was done is not known.
        """
        ...


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What a procedure of one leading works with.

    Attributes:
        store: to read; what is written goes through ``state_changer``.
        rules: asked at each turn, as settings may change.
        tasks: for timers, which end with the leading; what is due is noticed as an event.
        watches: those that the controller has set.
        recent: transitions of this leading, and of those before on this broker.
    """

    store: MetadataStore
    context: Context
    state_changer: StateChanger
    events: Events
    clock: Clock
    rules: Callable[[], ControllerRules]
    tasks: TaskScope
    watches: Sized
    recent: RecentTransitions


class Procedure(Protocol):
    """One of them, in one leading."""

    async def resume(self) -> None:
        """Go on with whatever is under way: once at the start of the leading."""
        ...

    async def on_requests_changed(self) -> None:
        """Nodes came or went below /brokers/partitions_reassigned or /admin/delete_topics."""
        ...

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """After leaders were elected, and the new ones were told all."""
        ...

    async def on_topics_changed(self, topics: Collection[str]) -> None:
        """These came, grew or went; the new partitions are initialised."""
        ...

    async def on_states_changed(self, partitions: Collection[TopicPartition]) -> None:
        """Leaders have changed the ISR of these."""
        ...

    async def on_stop_responses(self, answers: Sequence[StopResponse]) -> None:
        """Brokers have ended replicas, or will not."""
        ...


class Procedures(NamedTuple):
    """Attributes: procedures: in the order in which they hear of things."""

    ordered: Sequence[Procedure]
    admin: ControllerAdmin


# Builds what works in one leading.
BuildProcedures = Callable[[ControllerContext], Procedures]
