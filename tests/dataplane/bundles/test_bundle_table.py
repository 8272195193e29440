"""What is loaded never overlaps, and always has the highest token."""

from collections.abc import Callable
from contextlib import suppress
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic
from broker_ctl.dataplane.bundles.bundle_table import BundleTable
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, InvalidName

NAMESPACE = Namespace("t", "n")
(WHOLE,) = Ring.even(NAMESPACE, 1).bundles
LEFT, RIGHT = WHOLE.cut((0x80000000,))
Q1, Q2, Q3, Q4 = Ring.even(NAMESPACE, 4).bundles
TREE = {WHOLE: (LEFT, RIGHT), LEFT: (Q1, Q2), RIGHT: (Q3, Q4)}
ALL = (WHOLE, LEFT, RIGHT, Q1, Q2, Q3, Q4)


def held(table: BundleTable) -> dict[Bundle, int]:
    return {entry.bundle: entry.token for entry in table}


def opened(table: BundleTable) -> set[str]:
    return set().union(*(entry.open for entry in table))


def names_in(*bundles: Bundle) -> set[str]:
    names = (f"persistent://{NAMESPACE}/{i}" for i in range(64))
    return {n for n in names if any(Topic.parse(n).ring_hash in b.range for b in bundles)}


calls = st.one_of(
    st.builds(lambda b, t: lambda table: table.load(b, t), st.sampled_from(ALL), st.integers(1, 9)),
    st.builds(
        lambda b, t: lambda table: table.renew(b, t), st.sampled_from(ALL), st.integers(1, 9)
    ),
    st.builds(
        lambda b, t, u: lambda table: table.split(b, dict(zip(TREE[b], (t, u), strict=True))),
        st.sampled_from(tuple(TREE)),
        st.integers(1, 9),
        st.integers(1, 9),
    ),
    st.builds(
        lambda b, t: lambda table: table.merge(TREE[b], b, t),
        st.sampled_from(tuple(TREE)),
        st.integers(1, 9),
    ),
    st.builds(lambda b: lambda table: table.drop(b), st.sampled_from(ALL)),
)


@given(st.lists(calls, max_size=40))
def test_tokens_grow_at_every_hash_and_nothing_overlaps(
    history: list[Callable[[BundleTable], None]],
) -> None:
    table = BundleTable()
    highest = dict.fromkeys((Q1, Q2, Q3, Q4), 0)
    for call in history:
        before = held(table)
        try:
            call(table)
        except (DataPlaneFenced, DataPlaneRefused):
            assert held(table) == before
        after = held(table)
        assert not any(a.overlaps(b) for a, b in combinations(after, 2))
        for quarter in highest:
            for bundle, token in after.items():
                if bundle.overlaps(quarter):
                    assert token >= highest[quarter]
                    highest[quarter] = token


@given(st.lists(calls, max_size=20), calls)
def test_a_call_repeated_at_once_changes_nothing(
    history: list[Callable[[BundleTable], None]], last: Callable[[BundleTable], None]
) -> None:
    table = BundleTable()
    for call in history:
        with suppress(DataPlaneFenced, DataPlaneRefused):
            call(table)
    try:
        last(table)
    except (DataPlaneFenced, DataPlaneRefused):
        return
    once = held(table)
    last(table)
    assert held(table) == once


def test_open_topics_survive_load_renew_split_and_merge() -> None:
    table = BundleTable()
    table.load(WHOLE, 1)
    everything = names_in(WHOLE)
    table.get(WHOLE).open.update(everything)
    table.load(WHOLE, 1)
    table.renew(WHOLE, 2)
    table.split(WHOLE, {LEFT: 3, RIGHT: 3})
    assert table.get(LEFT).open == names_in(LEFT) != set()
    assert table.get(RIGHT).open == names_in(RIGHT) != set()
    table.split(LEFT, {Q1: 4, Q2: 4})
    table.merge((Q2, Q1), LEFT, 5)
    table.merge((LEFT, RIGHT), WHOLE, 6)
    assert opened(table) == everything


def test_a_repeated_split_keeps_what_was_opened_since() -> None:
    table = BundleTable()
    table.load(WHOLE, 1)
    table.split(WHOLE, {LEFT: 2, RIGHT: 2})
    table.get(LEFT).open.update(names_in(LEFT))
    table.split(WHOLE, {LEFT: 2, RIGHT: 2})
    assert table.get(LEFT).open == names_in(LEFT)


def test_what_overlaps_a_loaded_bundle_is_dropped() -> None:
    table = BundleTable()
    table.load(LEFT, 1)
    table.load(Q3, 1)
    table.load(Q2, 2)
    assert held(table) == {Q3: 1, Q2: 2}


def test_a_split_needs_the_parent_and_a_merge_both_children() -> None:
    table = BundleTable()
    with pytest.raises(DataPlaneRefused, match="is not loaded"):
        table.split(WHOLE, {LEFT: 1, RIGHT: 1})
    table.load(LEFT, 1)
    with pytest.raises(DataPlaneRefused, match="is not loaded"):
        table.merge((LEFT, RIGHT), WHOLE, 2)
    table.load(RIGHT, 1)
    table.merge((LEFT, RIGHT), WHOLE, 2)


@pytest.mark.parametrize("children", [(), (LEFT,), (LEFT, Q3), (Q1, RIGHT), (LEFT, RIGHT, Q1)])
def test_children_that_are_not_their_parent_cut_are_refused(children: tuple[Bundle, ...]) -> None:
    table = BundleTable()
    table.load(WHOLE, 1)
    with pytest.raises(InvalidName):
        table.split(WHOLE, dict.fromkeys(children, 2))
    assert held(table) == {WHOLE: 1}


def test_one_old_token_among_the_children_refuses_the_whole_split() -> None:
    table = BundleTable()
    table.load(WHOLE, 5)
    with pytest.raises(DataPlaneFenced):
        table.split(WHOLE, {LEFT: 6, RIGHT: 4})
    # The refused call left no token behind either.
    table.renew(WHOLE, 5)


def test_a_dropped_bundles_token_is_remembered() -> None:
    table = BundleTable()
    table.load(LEFT, 5)
    table.drop(WHOLE)
    with pytest.raises(DataPlaneFenced):
        table.load(WHOLE, 4)


def test_a_bundle_is_not_renewed_under_an_older_token() -> None:
    table = BundleTable()
    table.load(WHOLE, 5)
    with pytest.raises(DataPlaneFenced):
        table.renew(WHOLE, 4)
    assert table.get(WHOLE).token == 5
