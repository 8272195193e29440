"""The plan of the next cycle: what moves, what is left, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from broker_ctl.console.pages.frame import Row


@dataclass(frozen=True, slots=True)
class Change:
    """Usage of one broker before and after the plan, as ratios."""

    broker: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class PlanPage:
    """The page."""

    row: Row
    changes: tuple[Change, ...]
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
        Change(name, before[name], after(name)) for name in sorted(before, key=lambda b: -before[b])
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
