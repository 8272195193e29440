"""Which losses of brokers are a mass loss."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.surges import Absences, MassLossRules

NONE: frozenset[str] = frozenset()
ALL = frozenset("abcdefghij")
BROKERS = st.frozensets(st.sampled_from(sorted(ALL)))


@pytest.mark.parametrize(
    ("lost", "present", "is_mass_loss"),
    [
        ("", "abc", False),
        ("a", "b", False),
        ("a", "bc", False),
        ("ab", "c", True),
        ("abc", "defghij", False),
        ("abcd", "efghij", True),
        ("ab", "", True),
        # One that is back counts as present.
        ("abcd", "defghij", False),
    ],
)
def test_a_mass_loss_is_a_share_of_at_least_two(
    lost: str, present: str, *, is_mass_loss: bool
) -> None:
    found = MassLossRules(limit_ratio=0.3).is_mass_loss(frozenset(lost), frozenset(present))
    assert found is is_mass_loss


def test_without_a_limit_there_is_no_mass_loss() -> None:
    assert not MassLossRules(limit_ratio=0.0).is_mass_loss(ALL, NONE)


def test_brokers_that_were_stopped_or_drained_are_not_lost() -> None:
    seen = Absences().observe(frozenset("abc"), frozenset("b"), 1.0)
    seen = seen.observe(frozenset("c"), NONE, 2.0)
    assert dict(seen.lost_s) == {"a": 2.0}


def test_a_broker_that_is_back_is_not_lost_and_a_loss_ages() -> None:
    seen = Absences().observe(frozenset("abc"), NONE, 1.0).observe(frozenset("c"), NONE, 2.0)
    seen = seen.observe(frozenset("ac"), NONE, 3.0)
    assert seen.since(-math.inf) == {"b"}
    assert seen.since(2.0) == {"b"}
    assert seen.since(2.1) == NONE
    assert seen.after(2.1).since(-math.inf) == NONE
    assert seen.accepted().since(-math.inf) == NONE


@given(st.lists(st.tuples(BROKERS, BROKERS), max_size=8))
def test_nobody_is_present_and_lost(changes: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    seen = Absences()
    for now_s, (present, leaving) in enumerate(changes):
        before = seen
        seen = seen.observe(present, leaving, float(now_s))
        assert seen.lost_s.keys() & present == NONE
        newly = seen.lost_s.keys() - before.lost_s.keys()
        assert newly == before.present - present - before.leaving
