"""Looking at transition tables."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import pytest

from broker_ctl.errors import InvalidTransition

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)
A = TypeVar("A", bound=StrEnum)

Table = Mapping[tuple[S, E], tuple[S, tuple[A, ...]]]


def rendered(table: Table[S, E, A]) -> str:
    """One line a row: state, event -> next state: actions."""
    lines = [
        f"{state}, {event} -> {after}" + (f": {' '.join(actions)}" if actions else "")
        for (state, event), (after, actions) in table.items()
    ]
    return "\n".join(sorted(lines))


def without_row(table: Table[S, E, A], states: Iterable[S], events: Iterable[E]) -> set[str]:
    """The pairs that may not be."""
    pairs = ((state, event) for state in states for event in events)
    return {f"{state}, {event}" for state, event in pairs if (state, event) not in table}


def check_steps(
    table: Table[S, E, A],
    step: Callable[[S, E], tuple[S, tuple[A, ...]]],
    states: Iterable[S],
    events: Iterable[E],
) -> None:
    """`step` follows the table, and names state and event of a pair that has no row."""
    for state in states:
        for event in events:
            if (state, event) in table:
                assert step(state, event) == table[state, event]
            else:
                with pytest.raises(InvalidTransition, match=f"{event} in state {state}"):
                    step(state, event)
