"""Comparisons and fronts of replays, worked out by hand."""

import math

import pytest

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.job import CandidateVerdict, Replays, TaskFault
from broker_ctl.pipeline.backtest.judging import compare, pareto_fronts
from broker_ctl.pipeline.backtest.results import ComparisonRow, FrontRow, Named, ReplayRow

BASE = Named("settings", "")
HIGH = Named("settings", "loadBalancerPlannerHighPercentage=112")


def row(trace: str, who: Named, seed: int, *measures: float) -> ReplayRow:
    p99, moved, overload = measures
    return ReplayRow(trace, *who, seed, 60, 1.0, 1.0, p99, p99, moved, 3, 0, None, int(overload))


def test_pairs_are_of_the_same_seed_and_trace() -> None:
    replays = [
        # The seed changes both by four times their difference.
        row("day", BASE, 1, 1.25, 2.0, 5),
        row("day", BASE, 2, 1.75, 4.0, 0),
        row("day", BASE, 3, 9.0, 9.0, 9),
        row("day", HIGH, 2, 1.875, 1.0, 0),
        row("day", HIGH, 1, 1.375, 1.0, 7),
        row("day", HIGH, 4, 9.0, 9.0, 9),
        row("night", HIGH, 1, 1.0, 0.0, 0),
    ]
    key = ("day", *HIGH)
    assert list(compare(replays, BASE)) == [
        ComparisonRow(*key, "p99", *BASE, 2, 1.5, 1.625, 0.125, 0.125, 0.125),
        ComparisonRow(*key, "load_moved_pct_per_h", *BASE, 2, 3.0, 1.0, -2.0, -3.0, -1.0),
        ComparisonRow(*key, "overload_broker_min", *BASE, 2, 2.5, 3.5, 1.0, 0.0, 2.0),
    ]


def test_one_pair_bounds_nothing() -> None:
    replays = [row("day", BASE, 1, 1.25, 2.0, 5), row("day", HIGH, 1, 1.5, 2.0, 5)]
    first = next(compare(replays, BASE))
    assert (first.pairs, first.difference, first.low, first.high) == (1, 0.25, -math.inf, math.inf)


def test_each_trace_has_a_front_of_its_own() -> None:
    other = Named("threshold", "")
    replays = [
        row("day", BASE, 1, 1.25, 2.0, 4),
        row("day", BASE, 2, 1.75, 4.0, 0),
        row("day", HIGH, 1, 1.5, 3.0, 3),
        row("day", other, 1, 1.25, 9.0, 9),
        row("night", HIGH, 1, 1.5, 3.0, 3),
    ]
    assert list(pareto_fronts(replays)) == [
        # HIGH is as good in two and worse in overload.
        FrontRow("day", *BASE, 2, 1.5, 3.0, 2.0, is_on_front=True),
        FrontRow("day", *HIGH, 1, 1.5, 3.0, 3.0, is_on_front=False),
        FrontRow("day", *other, 1, 1.25, 9.0, 9.0, is_on_front=True),
        FrontRow("night", *HIGH, 1, 1.5, 3.0, 3.0, is_on_front=True),
    ]


def test_a_candidate_with_a_failed_replay_is_left_out_everywhere() -> None:
    other = Named("threshold", "")
    rows = [
        row("day", BASE, 1, 1.25, 2.0, 5),
        row("day", HIGH, 1, 1.5, 2.0, 5),
        row("day", other, 1, 1.5, 2.0, 5),
        row("night", BASE, 1, 1.25, 2.0, 5),
        row("night", other, 1, 1.5, 2.0, 5),
    ]
    faults = [TaskFault(HIGH, "night, seed 1, ...: it broke")]
    found = CandidateVerdict.of(Replays(rows, faults), BASE)
    left = [(each.trace, Named(each.policy, each.parameters)) for each in found.replays]
    assert left == [("day", BASE), ("day", other), ("night", BASE), ("night", other)]
    assert {each.policy for each in found.comparisons} == {"threshold"}
    assert found.front == [*pareto_fronts(found.replays)]
    assert found.faults == faults
    with pytest.raises(PipelineError, match=r"^first: there is nothing to hold the others against"):
        CandidateVerdict.of(
            Replays(rows, [TaskFault(BASE, "first"), TaskFault(BASE, "second")]), BASE
        )
