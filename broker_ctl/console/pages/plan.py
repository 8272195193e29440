"""The plan of the next cycle, a rollout under way, and the settings in force."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from typing import Final

from broker_ctl.console.pages.frame import Row
from broker_ctl.core.rollout.broker_machine import BrokerRolloutState as BrokerState
from broker_ctl.core.rollout.machine import ENDED, RolloutState
from broker_ctl.settings.root import Settings as AllSettings

# The plan of the next cycle: what moves, what is left, and why.


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Usage of one broker before and after the plan, as ratios."""

    broker: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class PlanPage:
    """The page."""

    row: Row
    changes: tuple[PlannedChange, ...]
    moves: tuple[Row, ...]
    others: tuple[Row, ...]
    skipped: Mapping[str, tuple[Row, ...]]
    longest: float


def plan_page(row: Row, brokers: Sequence[Row]) -> PlanPage:
    """The page of a plan, and of the brokers before it."""
    moves = tuple(each for each in row["decisions"] if each["kind"] == "transfer")
    before = {broker["broker"]: broker["usage_ratio"] for broker in brokers}

    def after(name: str) -> float:
        lost = fsum(
            move["source_usage_before_ratio"] - move["source_usage_after_ratio"]
            for move in moves
            if move["source"] == name
        )
        won = fsum(
            move["destination_usage_after_ratio"] - move["destination_usage_before_ratio"]
            for move in moves
            if move["destination"] == name
        )
        return max(0.0, float(before[name]) - lost + won)

    changes = tuple(
        PlannedChange(name, before[name], after(name))
        for name in sorted(before, key=lambda b: -before[b])
    )
    skipped: dict[str, list[Row]] = {}
    for skip in row.get("skipped", ()):
        skipped.setdefault(skip["reason"], []).append(skip)
    return PlanPage(
        row,
        changes,
        moves,
        tuple(each for each in row["decisions"] if each["kind"] != "transfer"),
        {reason: tuple(rows) for reason, rows in skipped.items()},
        max([1e-9, *(max(each.before, each.after) for each in changes)]),
    )


# A rollout as steps: how far each broker is, and what it waits for.


_PATH: Final = (
    BrokerState.WAITING,
    BrokerState.DRAINING,
    BrokerState.EMPTY,
    BrokerState.RESTARTING,
    BrokerState.CHECKING,
    BrokerState.DONE,
)


class PlannedPlace(StrEnum):
    """Where a step is, seen from the broker."""

    PAST = "past"
    NOW = "now"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One state on the way of a broker."""

    word: str
    place: PlannedPlace


@dataclass(frozen=True, slots=True)
class BrokerSteps:
    """One broker; a failed one has no current step."""

    row: Row
    steps: tuple[RolloutStep, ...]


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
    RolloutState.RUNNING: ("rollout-pause", "rollout-abort"),
    RolloutState.PAUSED: ("rollout-resume", "rollout-abort"),
    RolloutState.STOPPED: ("rollout-resume", "rollout-abort"),
    RolloutState.SETTLING: ("rollout-abort",),
}


def rollout_page(row: Row) -> RolloutPage:
    """The page of a rollout."""
    state = RolloutState(row["state"])
    brokers: Sequence[Row] = row["brokers"]
    return RolloutPage(
        row,
        tuple(BrokerSteps(broker, _steps(broker["state"])) for broker in brokers),
        _ACTS.get(state, ()),
        state in ENDED,
    )


def _steps(name: str) -> tuple[RolloutStep, ...]:
    state = BrokerState(name)
    at = _PATH.index(state) if state in _PATH else -1
    # What is done has no step that is still under way.
    is_done = state is BrokerState.DONE

    def place(number: int) -> PlannedPlace:
        if number < at or (is_done and number == at):
            return PlannedPlace.PAST
        return PlannedPlace.NOW if number == at else PlannedPlace.AHEAD

    return tuple(RolloutStep(each.value, place(number)) for number, each in enumerate(_PATH))


# The settings in force, with their defaults and overrides.


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting; ``origin`` is a word: default, broker.conf or override."""

    key: str
    value: str
    default: str
    origin: str
    is_dynamic: bool


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """The page; those that differ from their default come first."""

    changed: tuple[SettingRow, ...]
    others: tuple[SettingRow, ...]


def settings_page(
    values: Mapping[str, str], overrides: Mapping[str, str], dynamic: Collection[str]
) -> SettingsPage:
    """The page of a daemon's settings."""
    defaults = AllSettings()

    def row(key: str, value: str) -> SettingRow:
        default = defaults.text(key)
        origin = "default" if value == default else "broker.conf"
        return SettingRow(
            key, value, default, "override" if key in overrides else origin, key in dynamic
        )

    rows = [row(key, str(value)) for key, value in sorted(values.items())]
    return SettingsPage(
        tuple(each for each in rows if each.origin != "default"),
        tuple(each for each in rows if each.origin == "default"),
    )
