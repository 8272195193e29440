"""The step of every state machine whose table is by state and event."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from broker_ctl.errors import InvalidTransition

StateT = TypeVar("StateT", bound=StrEnum)
EventT = TypeVar("EventT", bound=StrEnum)
EntryT = TypeVar("EntryT")


@dataclass(frozen=True, slots=True)
class StateMachine(Generic[StateT, EventT, EntryT]):
    """A table, and the name of its subject in errors."""

    subject: str
    table: Mapping[tuple[StateT, EventT], EntryT]

    def step(self, state: StateT, event: EventT, story: str = "") -> EntryT:
        """The next state, and what to do where the table says that, too.

        ``story``, the last states and events of the subject, is for the error.

        Raises:
            InvalidTransition: the pair has no row.
        """
        try:
            return self.table[state, event]
        except KeyError:
            raise InvalidTransition(self.subject, state, event, story) from None
