"""The rule that decides, on evidence made by hand."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.pipeline.backtest.results import ComparisonRow, Named
from broker_ctl.pipeline.recommend.held_out import min_pairs, p_value
from broker_ctl.pipeline.recommend.rule import BacktestEvidence, judge_candidates, limit_of

P99, MOVED, OVERLOAD = "p99", "load_moved_pct_per_h", "overload_broker_min"
HIGH, LOW = Named("settings", "a=1"), Named("settings", "a=2")
BETTER, WORSE, SAME = (-0.3, -0.1), (0.1, 0.3), (-0.1, 0.1)
Ends = tuple[float, float]


def evidence(
    measure: str,
    ends: Ends,
    *,
    trace: str = "diurnal",
    pairs: int = 10,
    luck: float = 0.0,
    named: Named = HIGH,
) -> BacktestEvidence:
    low, high = ends
    middle = (low + high) / 2
    row = ComparisonRow(
        trace, *named, measure, "settings", "", pairs, 2.0, 2.0 + middle, middle, low, high
    )
    return BacktestEvidence(row, luck)


def three(p99: Ends, moved: Ends, overload: Ends, trace: str = "diurnal") -> list[BacktestEvidence]:
    found = zip((P99, MOVED, OVERLOAD), (p99, moved, overload), strict=True)
    return [evidence(measure, ends, trace=trace) for measure, ends in found]


def refusal(*found: BacktestEvidence, traces: tuple[str, ...] = ("diurnal",)) -> str:
    (verdict,) = judge_candidates({HIGH: found}, traces)
    return verdict.refusal


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        # Of eight choices of signs one has a sum as low as -3 - 2 - 1.
        ([-3, -2, -1], 1 / 8),
        # -3 - 2 + 1 = -4, and -6.
        ([-3, -2, 1], 2 / 8),
        # As low as 0: -6, -4, -2 and both 0s.
        ([3, -2, -1], 5 / 8),
        ([3, 2, 1], 1.0),
        ([0, 0, 0], 1.0),
        # One that is 0 proves as little as one that is not there.
        ([-1, -1, 0], 1 / 4),
        ([], 1.0),
        ([-1], 1 / 2),
    ],
)
def test_chance_counts_the_choices_of_signs(differences: list[float], expected: float) -> None:
    assert p_value(differences) == expected


def test_of_many_pairs_choices_are_drawn() -> None:
    assert p_value([-1.0] * 18) == 2**-18
    # Not one of the drawn choices is as low; what was seen is.
    assert p_value([-1.0] * 30) == 1 / (2**18 + 1)
    # As many below as above: half, and half of the choices that come to just 0.
    assert p_value([-1.0, 1.0] * 15) == pytest.approx(0.572, abs=0.005)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_chance_is_a_part_of_all_and_grows_with_the_worse(differences: list[float]) -> None:
    found = p_value(differences)
    assert 2.0 ** -len(differences) <= found <= 1
    assert (found * 2 ** len(differences)).is_integer()
    assert p_value([each + 2e6 for each in differences]) == 1
    assert p_value(differences[::-1]) == found


def test_the_limit_is_shared_by_all_that_were_tried() -> None:
    assert limit_of(1) == 0.025
    assert limit_of(10) == 0.0025
    # 2 to the power of -6 is 0.016, of -5 0.031; and 0.00195 against 0.0039.
    assert [min_pairs(limit_of(count)) for count in (1, 10)] == [6, 9]


@pytest.mark.parametrize(
    ("p99", "moved", "overload", "said"),
    [
        (BETTER, SAME, SAME, ""),
        (SAME, BETTER, SAME, ""),
        (BETTER, BETTER, BETTER, ""),
        (BETTER, WORSE, SAME, "worse on diurnal: load_moved_pct_per_h 2 -> 2.2"),
        (BETTER, SAME, WORSE, "worse on diurnal: overload_broker_min"),
        (WORSE, BETTER, SAME, "worse on diurnal: p99"),
        # Fewer overloaded minutes alone do not speak for it.
        (SAME, SAME, BETTER, "no better on diurnal: p99 2 -> 2, difference +0 [-0.1, +0.1]; load"),
        # An end at 0 is neither.
        ((-0.2, 0.0), SAME, SAME, "no better"),
        (BETTER, (0.0, 0.2), SAME, ""),
        # One pair alone says nothing.
        ((-inf, inf), (-inf, inf), (-inf, inf), "no better"),
        (BETTER, (nan, nan), SAME, "worse on diurnal: load_moved"),
    ],
)
def test_something_must_be_better_and_nothing_worse(
    p99: Ends, moved: Ends, overload: Ends, said: str
) -> None:
    found = refusal(*three(p99, moved, overload))
    assert (found.startswith(said), bool(found)) == (True, bool(said)), found


def test_all_traces_must_agree() -> None:
    both = "diurnal", "steady"
    good = three(BETTER, SAME, SAME)
    assert refusal(*good, *three(SAME, BETTER, SAME, "steady"), traces=both) == ""
    idle, bad = three(SAME, SAME, SAME, "steady"), three(BETTER, SAME, WORSE, "steady")
    assert refusal(*good, *idle, traces=both).startswith("no better on steady")
    assert refusal(*good, *bad, traces=both).startswith("worse on steady")
    assert refusal(*good, *bad) == ""
    assert refusal(*good, traces=both).startswith("on steady it was not replayed")
    assert refusal(*good[:2]).startswith("on diurnal it was not replayed")


def test_too_few_pairs_and_luck_are_refused_with_different_reasons() -> None:
    rest = [evidence(MOVED, SAME), evidence(OVERLOAD, SAME)]
    few = refusal(evidence(P99, BETTER, pairs=5, luck=1 / 32), *rest)
    assert few.startswith("too few seeds on diurnal: p99 2 -> 1.8")
    assert few.endswith("this number of candidates needs 6: back-test with --seeds 6")
    lucky = refusal(evidence(P99, BETTER, pairs=6, luck=2 / 64), *rest)
    assert lucky.startswith("it may be luck on diurnal: p99 2 -> 1.8")
    assert refusal(evidence(P99, BETTER, pairs=6, luck=1 / 64), *rest) == ""


def test_what_was_enough_for_one_candidate_is_not_for_ten() -> None:
    found = [evidence(P99, BETTER, luck=0.01), *three(SAME, SAME, SAME)[1:]]
    assert judge_candidates({HIGH: found}, ["diurnal"])[0].refusal == ""
    others = {Named("settings", f"a={number}"): three(SAME, SAME, SAME) for number in range(3, 12)}
    ten = judge_candidates({HIGH: found} | others, ["diurnal"])
    assert len(ten) == 10
    assert all(each.refusal for each in ten)


def test_of_several_the_best_comes_first() -> None:
    one = three(BETTER, SAME, SAME)
    lower = [evidence(P99, (-0.5, -0.3)), *one[1:]]
    two = three((-0.2, -0.05), BETTER, SAME)
    bad = three(WORSE, SAME, SAME)
    names = [Named("settings", f"a={number}") for number in range(4)]
    found = judge_candidates(dict(zip(names, (one, lower, bad, two), strict=True)), ["diurnal"])
    assert [each.candidate.parameters for each in found] == ["a=3", "a=1", "a=0", "a=2"]
    assert [bool(each.refusal) for each in found] == [False, False, False, True]
    # The order in which they were tried does not matter, and of equals the names decide.
    equals = judge_candidates({LOW: one, HIGH: one}, ["diurnal"])
    assert [each.candidate for each in equals] == [HIGH, LOW]
