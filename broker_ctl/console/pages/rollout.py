"""A rollout as steps: how far each broker is, and what it waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.console.pages.frame import Row
from broker_ctl.core.rollout.broker_machine import State as BrokerState
from broker_ctl.core.rollout.machine import ENDED, State

_PATH: Final = (
    BrokerState.WAITING,
    BrokerState.DRAINING,
    BrokerState.EMPTY,
    BrokerState.RESTARTING,
    BrokerState.CHECKING,
    BrokerState.DONE,
)


class Place(StrEnum):
    """Where a step is, seen from the broker."""

    PAST = "past"
    NOW = "now"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class Step:
    """One state on the way of a broker."""

    word: str
    place: Place


@dataclass(frozen=True, slots=True)
class BrokerSteps:
    """One broker; a failed one has no current step."""

    row: Row
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RolloutPage:
    """The page.

    Attributes:
        acts: what an operator may do in this state.
        wait: what the brokers in progress wait for.
    """

    row: Row
    brokers: tuple[BrokerSteps, ...]
    acts: tuple[str, ...]
    is_over: bool


_ACTS: Final = {
    State.RUNNING: ("rollout-pause", "rollout-abort"),
    State.PAUSED: ("rollout-resume", "rollout-abort"),
    State.STOPPED: ("rollout-resume", "rollout-abort"),
    State.SETTLING: ("rollout-abort",),
}


def rollout_page(row: Row) -> RolloutPage:
    """The page of a rollout."""
    state = State(row["state"])
    brokers: Sequence[Row] = row["brokers"]
    return RolloutPage(
        row,
        tuple(BrokerSteps(broker, _steps(broker["state"])) for broker in brokers),
        _ACTS.get(state, ()),
        state in ENDED,
    )


def _steps(name: str) -> tuple[Step, ...]:
    state = BrokerState(name)
    at = _PATH.index(state) if state in _PATH else -1
    # What is done has no step that is still under way.
    is_done = state is BrokerState.DONE

    def place(number: int) -> Place:
        if number < at or (is_done and number == at):
            return Place.PAST
        return Place.NOW if number == at else Place.AHEAD

    return tuple(Step(each.value, place(number)) for number, each in enumerate(_PATH))
