"""The planner: worked examples, and properties of every problem."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.planner import Move, Relief, apply_moves
from broker_ctl.core.strategies.balance.problem import BalanceProblem
from tests.core.strategies.balance.problems import (
    INF,
    bands,
    one,
    paths,
    plain_problems,
    problems,
    relieved,
    several,
    usages,
)


def stuck(relief: Relief) -> list[tuple[int, float]]:
    return [(broker, round(usage, 6)) for broker, usage in relief.stuck]


# Worked examples. The mean usage is 50 % unless given: 60 % is tolerated, 55 % is aimed at.


def test_the_smallest_bundle_that_is_enough_goes_and_no_other() -> None:
    relief = relieved(one([[30, 21, 16, 3], [30], [50]]))
    assert paths(relief) == [(2, 0, 1)]
    assert relief.moves[0][3:] == pytest.approx((0.70, 0.54, 0.30, 0.46))
    assert (relief.mean, relief.before, relief.after) == pytest.approx((0.5, 1.4, 1.08))
    assert relief.stuck == ()


def test_where_none_that_is_enough_fits_the_largest_that_does_goes_first() -> None:
    """There is room for 17; moving another 6 for the last 1 above the aim would be a waste."""
    relief = relieved(one([[30, 20, 8, 6, 6], [42], [38]]))
    assert paths(relief) == [(2, 0, 2), (4, 0, 1)]
    assert relief.after == pytest.approx(1.12)


def test_where_no_bundle_fits_a_large_one_is_exchanged_for_a_smaller_one() -> None:
    relief = relieved(one([[45, 25], [28, 12], [20, 20]]))
    assert paths(relief) == [(1, 0, 1), (3, 1, 0)]
    there, back = relief.moves
    assert there[3:] == pytest.approx((0.70, 0.45, 0.40, 0.65))
    assert back[3:] == pytest.approx((0.65, 0.53, 0.45, 0.57))


def test_an_exchange_whose_second_leg_goes_uphill_is_not_begun() -> None:
    """40 for 20: 58 and 61 once the first leg is made, 78 and 41 once both are."""
    problem = replace(one([[58, 40], [20, 1]]), is_movable=np.array([False, True, True, True]))
    assert relieved(problem, Band(high=1.2, low=1.0, least=0.0)).moves == ()


@pytest.mark.parametrize(
    "change",
    [
        {"is_movable": np.array([True, True, True, False, True, True])},
        {"avoid": np.array([-1, -1, -1, 0, -1, -1], np.int32)},
        {"avoid": np.array([-1, 1, -1, -1, -1, -1], np.int32)},
        {"is_receiving": np.array([False, True, True])},
        {
            "kind": np.array([0, 0, 0, 1, 0, 0], np.int32),
            "allowed": np.array([[True, True, True], [False, True, True]]),
        },
        {
            "kind": np.array([0, 1, 0, 0, 0, 0], np.int32),
            "allowed": np.array([[True, True, True], [True, False, True]]),
        },
    ],
)
def test_an_exchange_is_not_made_where_either_leg_may_not_be(change: dict[str, Any]) -> None:
    problem = one([[45, 25], [28, 12], [20, 20]])
    assert len(relieved(problem).moves) == 2
    assert relieved(replace(problem, **change)).moves == ()


def test_a_receiver_is_not_filled_beyond_the_aim() -> None:
    """After one of 14 the giver has 56; another would make 58 of 44, or 64 of 50."""
    relief = relieved(one([[14, 14, 14, 28], [50], [30]]))
    assert paths(relief) == [(2, 0, 2)]
    assert relief.moves[0].source_after == pytest.approx(0.56)
    assert relief.stuck == ()


@pytest.mark.parametrize(("excess", "moves"), [(0, []), (1, [(1, 0, 1)])])
def test_inside_the_band_nobody_gives(excess: float, moves: list[tuple[int, int, int]]) -> None:
    problem = one([[54 + excess, 6], [40 - excess]])
    assert paths(relieved(problem)) == moves


def test_in_an_idle_cluster_nobody_gains_by_evenness() -> None:
    idle = one([[4, 4], [1], [0]])
    assert relieved(idle, Band(1.2, 1.1, least=0.05)).moves == ()
    assert paths(relieved(idle, Band(1.2, 1.1, least=0.02))) == [(0, 0, 2)]


def test_a_bundle_that_is_larger_than_everything_stays_and_its_broker_is_reported_stuck() -> None:
    relief = relieved(one([[90], [30], [30]]))
    assert relief.moves == ()
    assert stuck(relief) == [(0, 0.9)]
    assert relief.before == relief.after == pytest.approx(1.8)


def test_bundles_that_fit_move_though_they_are_not_enough() -> None:
    relief = relieved(one([[64, 6], [50], [30]]))
    assert paths(relief) == [(1, 0, 2)]
    assert stuck(relief) == [(0, 0.64)]


def test_the_fullest_broker_is_relieved_first() -> None:
    relief = relieved(one([[10] * 7, [10] * 9, [20], [20]]))
    assert [move.source for move in relief.moves] == [1, 1, 1, 0]


def test_brokers_of_several_sizes_are_compared_by_what_each_can_take() -> None:
    """All of 50 and half of 200: a bundle of 20 is 40 % of the one and 10 % of the other."""
    relief = relieved(one([[30, 20], [60, 40]], capacity=[50.0, 200.0]))
    assert paths(relief) == [(1, 0, 1)]
    assert relief.moves[0][3:] == pytest.approx((1.0, 0.6, 0.5, 0.6))
    assert relieved(one([[15, 10], [60, 40]], capacity=[50.0, 200.0])).moves == ()


def test_the_broker_with_the_most_room_receives_though_it_has_the_most_load() -> None:
    """25 on top of 20 of 100 make 45 %, on top of 80 of 400 they make 26 %."""
    relief = relieved(one([[30, 25], [20], [80]], capacity=[100.0, 100.0, 400.0]))
    assert paths(relief) == [(1, 0, 2)]
    assert relief.moves[0].destination_after == pytest.approx(0.2625)


def test_the_fullest_resource_counts_on_both_sides() -> None:
    """The network of the first is too full; the second, with next to none of it, has no cpu."""
    first = [(10, 24), (30, 10), (5, 44)]
    relief = relieved(several([first, [(52, 5)], [(15, 20)]]))
    assert paths(relief) == [(0, 0, 2)]
    assert relief.moves[0][3:] == pytest.approx((0.78, 0.54, 0.20, 0.44))


def test_a_bundle_that_leaves_its_broker_as_full_as_it_was_stays() -> None:
    """Both resources are equally full, and no bundle lowers both."""
    problem = several([[(30, 0), (0, 30)], []])
    full = replace(problem, base=np.array([[50.0, 50.0], [20.0, 20.0]]))
    assert relieved(full).moves == ()
    assert stuck(relieved(full)) == [(0, 0.8)]


def test_once_a_resource_has_come_down_the_next_one_counts() -> None:
    """70 and 55 become 50 and 55: now the network is what is too full."""
    first = [(20, 0), (20, 0), (20, 0), (0, 30), (10, 25)]
    relief = relieved(several([first, *[[(10, 10)]] * 3]), Band(high=2.0, low=1.4, least=0.0))
    assert [move.bundle for move in relief.moves[:2]] == [2, 4]
    assert [move.source_after for move in relief.moves[:2]] == pytest.approx([0.55, 0.4])


def test_a_broker_without_a_limit_takes_everything() -> None:
    relief = relieved(one([[50, 30], [40]], capacity=[100.0, INF]))
    assert sorted(paths(relief)) == [(0, 0, 1), (1, 0, 1)]
    assert (relief.before, relief.after) == pytest.approx((2.0, 1.0))


def test_where_nobody_has_a_limit_nobody_is_too_full() -> None:
    assert relieved(one([[50], []], capacity=[INF, INF])) == Relief((), 0.0, 1.0, 1.0, ())


def test_without_brokers_or_bundles_there_is_nothing_to_do() -> None:
    nothing = Relief((), 0.0, 1.0, 1.0, ())
    assert relieved(one([])) == nothing
    assert relieved(one([[], [], []])) == nothing
    assert relieved(one([[10]])).moves == ()
    lonely = replace(one([[10, 10], []]), is_counted=np.zeros(2, bool))
    assert relieved(lonely) == nothing


def test_no_more_moves_are_planned_than_allowed() -> None:
    problem = one([[30, 20, 8, 6, 6], [42], [38]])
    all_of_them = relieved(problem).moves
    for limit in range(4):
        assert relieved(problem, limit=limit).moves == all_of_them[:limit]
    # Half of an exchange is not made.
    assert relieved(one([[45, 25], [28, 12], [20, 20]]), limit=1).moves == ()


def test_a_broker_on_its_way_down_is_neither_counted_nor_relieved() -> None:
    problem = one([[10] * 7, [50], [30], [95, 5]])
    leaving = replace(
        problem,
        is_counted=np.array([True, True, True, False]),
        is_receiving=np.array([True, True, True, False]),
    )
    relief = relieved(leaving)
    assert relief.mean == pytest.approx(0.5)
    assert {move.source for move in relief.moves} == {0}


def test_usage_without_a_bundle_counts_and_stays() -> None:
    problem = replace(one([[15, 5], [40], [30]]), base=np.array([[50.0], [0], [10]]))
    relief = relieved(problem)
    assert paths(relief) == [(0, 0, 1)]
    assert relief.moves[0][3:] == pytest.approx((0.70, 0.55, 0.40, 0.55))


def test_a_bundle_far_larger_than_what_is_too_much_goes_where_nothing_else_would_do() -> None:
    """A new broker among such of two large bundles each: 18 are too much, 30 must go for it."""
    relief = relieved(one([[30, 30], [30, 30], [30, 30], []]))
    assert [(move.source, move.destination) for move in relief.moves] == [(0, 3)]
    assert [usage for _, usage in relief.stuck] == pytest.approx([0.6, 0.6])


# What holds for every problem.


def replayed(
    problem: BalanceProblem, relief: Relief
) -> Iterator[tuple[Move, list[float], list[float]]]:
    """Each move with the usages before and after it, added up from the start."""
    owner = problem.owner.tolist()
    for move in relief.moves:
        before = usages(problem, owner)
        owner[move.bundle] = move.destination
        yield move, before, usages(problem, owner)


@given(problems(), bands, st.none() | st.integers(0, 4))
def test_no_constraint_is_broken(problem: BalanceProblem, band: Band, limit: int | None) -> None:
    relief = relieved(problem, band, limit)
    owner = problem.owner.tolist()
    previous: Move | None = None
    held = problem.held.copy()
    for move in relief.moves:
        held[move.source] -= problem.takes[move.bundle]
        held[move.destination] += problem.takes[move.bundle]
        assert (held[move.destination] <= problem.most[move.destination]).all()
        assert owner[move.bundle] == move.source != move.destination
        assert problem.is_movable[move.bundle]
        assert problem.is_receiving[move.destination]
        assert problem.allowed[problem.kind[move.bundle], move.destination]
        assert problem.avoid[move.bundle] != move.destination
        # A source is to be relieved, or gives something back for what it just got.
        able = problem.is_giving & problem.is_counted
        is_back = previous is not None and previous[1:3] == (move.destination, move.source)
        assert able[move.source] or (is_back and able[move.destination])
        owner[move.bundle] = move.destination
        previous = move
    assert len({move.bundle for move in relief.moves}) == len(relief.moves)
    assert limit is None or len(relief.moves) <= limit
    after = apply_moves(problem, relief.moves)
    assert after.owner.tolist() == owner
    assert (after.held == held).all()


@given(problems(), bands, st.none() | st.integers(0, 4))
def test_every_single_move_makes_the_objective_smaller(
    problem: BalanceProblem, band: Band, limit: int | None
) -> None:
    """The usages from the fullest down, as words are compared: it gives a move no way back."""
    for _, before, after in replayed(problem, relieved(problem, band, limit)):
        assert sorted(after, reverse=True) < sorted(before, reverse=True)


@given(problems(), bands, st.none() | st.integers(0, 4))
def test_every_move_has_the_usages_before_and_after_it(
    problem: BalanceProblem, band: Band, limit: int | None
) -> None:
    relief = relieved(problem, band, limit)
    start = usages(problem, problem.owner.tolist())
    assert relief.mean == pytest.approx(mean_of(problem, start))
    end = start
    for move, before, after in replayed(problem, relief):
        expected = [before[move.source], after[move.source]]
        expected += [before[move.destination], after[move.destination]]
        assert list(move[3:]) == pytest.approx(expected)
        end = after
    able = problem.is_giving & problem.is_counted
    carried = carried_by(problem, problem.owner.tolist())
    for move in relief.moves:
        carried[move.destination].add(int(problem.kind[move.bundle]))
    full = [
        number
        for number, usage in enumerate(end)
        if able[number]
        and usage > band.trigger(compared_with(problem, end, number, carried[number])) + 1e-9
    ]
    assert [broker for broker, _ in relief.stuck] == full
    assert [usage for _, usage in relief.stuck] == pytest.approx([end[each] for each in full])


def carried_by(problem: BalanceProblem, owner: list[int]) -> list[set[int]]:
    """The kinds on each broker."""
    found: list[set[int]] = [set() for _ in problem.capacity]
    for bundle, broker in enumerate(owner):
        found[broker].add(int(problem.kind[bundle]))
    return found


def compared_with(
    problem: BalanceProblem, usage: list[float], broker: int, carried: set[int]
) -> float:
    """The smallest mean of the brokers that may carry what a broker carries."""
    kinds = [each for each in carried if problem.sharing[each, broker]]
    means = [
        mean_of(replace(problem, is_counted=problem.is_counted & problem.sharing[each]), usage)
        for each in kinds
    ]
    return min(means, default=mean_of(problem, usage))


def mean_of(problem: BalanceProblem, usage: list[float]) -> float:
    counted = [each for each, counts in zip(usage, problem.is_counted, strict=True) if counts]
    return sum(counted) / len(counted) if counted else 0.0


@given(problems(), bands)
def test_a_plan_that_has_been_carried_out_leaves_nothing_to_plan(
    problem: BalanceProblem, band: Band
) -> None:
    """What has moved rests."""
    relief = relieved(problem, band)
    later = apply_moves(problem, relief.moves)
    resting = later.is_movable.copy()
    resting[[move.bundle for move in relief.moves]] = False
    again = relieved(replace(later, is_movable=resting), band)
    assert again.moves == ()
    # One that has given all of a kind is not compared with the others of that kind any more.
    assert {broker for broker, _ in again.stuck} <= {broker for broker, _ in relief.stuck}


@settings(max_examples=150)
@given(plain_problems(), bands)
def test_among_equals_nobody_ends_fuller_than_it_was_or_is_aimed_at(
    problem: BalanceProblem, band: Band
) -> None:
    relief = relieved(problem, band)
    owner = apply_moves(problem, relief.moves).owner.tolist()
    start, end = usages(problem, problem.owner.tolist()), usages(problem, owner)
    # A kind that may not go everywhere has a mean of its own.
    aim = (band.target(relief.mean) if problem.allowed.all() else max(start)) + 1e-8
    assert all(after <= max(before, aim) for before, after in zip(start, end, strict=True))
    # The mean stays, so that max over mean is what the largest makes of it.
    assert sum(end) == pytest.approx(sum(start))
    assert relief.after <= relief.before
    assert relief.after == pytest.approx(max(end) * len(end) / sum(end))


@given(plain_problems(), bands)
def test_numbers_say_nothing_of_brokers_that_differ(problem: BalanceProblem, band: Band) -> None:
    """Turned round, with sizes that are all different: the same moves under their new numbers."""
    count, brokers = len(problem.demand), len(problem.capacity)
    sizes = problem.demand + np.exp2(-np.arange(2.0, count + 2))[:, np.newaxis]
    base = np.exp2(-np.arange(count + 3.0, count + 3 + brokers))[:, np.newaxis]
    distinct = replace(problem, demand=sizes, base=base)
    turned = replace(
        distinct,
        demand=sizes[::-1],
        base=base[::-1],
        kind=problem.kind[::-1],
        allowed=problem.allowed[:, ::-1],
        sharing=problem.sharing[:, ::-1],
        owner=(brokers - 1 - problem.owner[::-1]).astype(np.int32),
    )
    there = [
        (count - 1 - bundle, brokers - 1 - source, brokers - 1 - destination)
        for bundle, source, destination in paths(relieved(turned, band))
    ]
    assert there == paths(relieved(distinct, band))
