"""Records which rules a leader reads in a scenario."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar

from broker_ctl.balancer.context.dependencies import LeaderRules
from broker_ctl.core.rules.leader_rules import (
    AvgRules,
    BalanceRules,
    Band,
    Budgets,
    DifferenceRules,
    MergeRules,
    OverloadRules,
    PlacementRules,
    SheddingRules,
    SlowRules,
    Smoothing,
    SplitRules,
    TransferRules,
    UniformRules,
)
from broker_ctl.core.rules.limits import QuietHours

T = TypeVar("T")

RULES: Final = (
    LeaderRules,
    SheddingRules,
    OverloadRules,
    DifferenceRules,
    UniformRules,
    AvgRules,
    TransferRules,
    BalanceRules,
    Band,
    Smoothing,
    SlowRules,
    PlacementRules,
    SplitRules,
    MergeRules,
    Budgets,
    QuietHours,
)


def recorded(rules: T, read: set[str]) -> T:
    """A copy of rules that adds each of its fields to ``read`` when it is read, nested ones too."""
    kind = type(rules)
    values = {field.name: getattr(rules, field.name) for field in _fields(rules)}
    # Of the two quiet hours those of the balance are meant.
    deep = {name: _deep(value, read) for name, value in values.items() if name != "whole_hours"}
    values |= deep

    def look(self: object, name: str) -> object:
        if name in values:
            read.add(f"{kind.__qualname__}.{name}")
            return values[name]
        return object.__getattribute__(self, name)

    copy: T = object.__new__(type(kind.__name__, (kind,), {"__getattribute__": look}))
    return copy


def _deep(value: object, read: set[str]) -> object:
    return recorded(value, read) if isinstance(value, RULES) else value


def _fields(rules: object) -> Iterator[Any]:
    assert is_dataclass(rules)
    yield from fields(rules)
