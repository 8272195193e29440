"""States of a bundle: the table in the docstring is the table that counts."""

import re

import pytest

from broker_ctl.core.machines import ownership
from broker_ctl.core.machines.ownership import NEXT, BundleState, advance
from broker_ctl.errors import InvalidTransition
from tests.support.rules.families import for_each

PAIRS = [(state, to) for state in BundleState for to in BundleState]


def documented() -> set[tuple[str, str]]:
    """The first two columns of the table in the module's docstring."""
    assert ownership.__doc__ is not None
    rows = (re.match(r"(\w+) +(\w+) +\S", line) for line in ownership.__doc__.splitlines()[3:])
    return {(row[1], row[2]) for row in rows if row is not None}


def test_the_docstring_shows_the_table() -> None:
    assert documented() == {(state, to) for state, after in NEXT.items() for to in after}
    assert NEXT.keys() == set(BundleState)


@for_each(("state", "to"), PAIRS)
def test_a_step_is_in_the_table_or_an_error(state: BundleState, to: BundleState) -> None:
    if to in NEXT[state]:
        assert advance("t/ns/x", state, to) is to
    else:
        with pytest.raises(InvalidTransition, match=f"t/ns/x: -> {to} in state {state}"):
            advance("t/ns/x", state, to)


def test_every_held_state_can_be_interrupted_by_the_end_of_its_session() -> None:
    held = set(BundleState) - {BundleState.FREE, BundleState.DELETED, BundleState.RECLAIMING}
    for state in held:
        assert NEXT[state] & {BundleState.RECLAIMING, BundleState.FREE}
