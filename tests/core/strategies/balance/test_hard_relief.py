"""What is beyond a limit or a cap gives for it, if others have room, and nothing else is broken."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.rules.leader_rules import Band
from broker_ctl.core.strategies.balance.limits import HardRelief, relieve_hard
from broker_ctl.core.strategies.balance.planner import apply_moves, relieve
from broker_ctl.core.strategies.balance.problem import (
    BalanceProblem,
    SpreadCounts,
    spread_of,
    within,
)
from tests.core.strategies.balance.problems import BAND, bands, one, problems, usages

INF = float("inf")


def limited(problem: BalanceProblem, takes: list[float], most: list[float]) -> BalanceProblem:
    """With one limit."""
    held = np.zeros((len(most), 1))
    column = np.array(takes)[:, np.newaxis]
    np.add.at(held, problem.owner, column)
    return replace(problem, takes=column, held=held, most=np.array(most)[:, np.newaxis])


def capped(problem: BalanceProblem, rows: list[dict[int, int]], cap: int) -> BalanceProblem:
    """With the partitions of topics."""
    topics = 1 + max((topic for row in rows for topic in row), default=-1)
    return replace(problem, spread=spread_of(rows, len(problem.capacity), topics, cap))


def found(problem: BalanceProblem, limit: int = 64) -> HardRelief:
    return relieve_hard(problem, BAND, limit)


def steps(relief: HardRelief) -> list[tuple[int, int, int]]:
    return [(move.bundle, move.source, move.destination) for move in relief.moves]


def test_a_broker_gives_for_its_limit_though_it_is_not_too_full() -> None:
    problem = limited(one([[10, 10, 3], [24], [22]]), [4, 3, 2, 1, 1], [7.0, 4.0, 4.0])
    relief = found(problem)
    # The smallest that is enough, to the one that is least full then.
    assert steps(relief) == [(2, 0, 2)]
    assert relief.stuck == []


def test_nothing_is_given_where_no_other_has_room() -> None:
    problem = limited(one([[5, 5], [5]]), [4, 4, 4], [7.0, 7.0])
    assert steps(found(problem)) == []
    assert found(problem).stuck == [0]


def test_nobody_gives_where_all_are_full() -> None:
    problem = limited(one([[5, 5], [5, 5]]), [4, 4, 4, 4], [7.0, 7.0])
    assert (steps(found(problem)), found(problem).stuck) == ([], [0, 1])


def test_a_receiver_does_not_become_too_full() -> None:
    problem = limited(one([[30, 30], [50], [10]]), [4, 4, 1, 1], [7.0, 9.0, 9.0])
    assert steps(found(problem)) == [(0, 0, 2)]
    heavy = limited(one([[30, 30], [50], [48]]), [4, 4, 1, 1], [7.0, 9.0, 9.0])
    assert (steps(found(heavy)), found(heavy).stuck) == ([], [0])


def test_a_broker_gives_partitions_above_the_cap_the_lightest_bundle_first() -> None:
    problem = one([[10, 10, 3], [24], [22]])
    rows = [{0: 1}, {0: 1}, {0: 1, 1: 1}, {0: 1}, {}]
    assert steps(found(capped(problem, rows, 2))) == [(2, 0, 2)]
    assert steps(found(capped(problem, rows, 3))) == []
    assert steps(found(capped(problem, rows, 0))) == []
    # Both others have as many as they may.
    full = found(capped(problem, [*rows[:3], {0: 1}, {0: 1}], 1))
    assert (steps(full), full.stuck) == ([], [0])


def test_no_more_than_the_limit_of_moves() -> None:
    problem = limited(one([[5] * 6, [5], [5]]), [1] * 8, [2.0, 9.0, 9.0])
    assert len(steps(found(problem))) == 4
    relief = found(problem, limit=3)
    assert (len(relief.moves), relief.stuck) == (3, [])


def test_a_plan_prefers_receivers_with_no_more_than_a_share_of_the_topic() -> None:
    """The coldest has the topic's other partition, so the next one gets the bundle."""
    problem, band = one([[20, 20, 20], [7], [7.05]]), Band(high=1.2, low=1.1, least=0.0)
    first = relieve(problem, band).moves[0]
    assert (first.bundle, first.destination) == (2, 1)
    rows = [{}, {}, {0: 1}, {0: 1}, {}]
    first = relieve(capped(problem, rows, 0), band).moves[0]
    assert (first.bundle, first.destination) == (2, 2)


def test_an_exchange_brings_back_no_partition_above_the_cap() -> None:
    """Bundle 3 comes back for bundle 1, unless its topic is at the receiver already."""
    problem = one([[45, 25], [28, 12], [20, 20]])
    assert [move.bundle for move in relieve(problem, BAND).moves] == [1, 3]
    rows: list[dict[int, int]] = [{0: 1}, {}, {}, {0: 1}, {}, {}]
    assert 3 not in [move.bundle for move in relieve(capped(problem, rows, 1), BAND).moves]
    # What goes makes room for what comes.
    rows = [{}, {0: 1}, {}, {0: 1}, {}, {}]
    assert [move.bundle for move in relieve(capped(problem, rows, 2), BAND).moves] == [1, 3]


@st.composite
def spread_problems(draw: st.DrawFn) -> BalanceProblem:
    """With every kind of constraint, and up to four topics."""
    problem = draw(problems())
    dice = np.random.Generator(np.random.PCG64(draw(st.integers(0, 2**32))))
    rows = [
        {
            int(topic): int(dice.integers(1, 3))
            for topic in dice.choice(4, dice.integers(0, 3), replace=False)
        }
        for _ in range(len(problem.owner))
    ]
    return capped(problem, rows, draw(st.integers(0, 4)))


def counts_of(problem: BalanceProblem, owner: list[int]) -> Counter[tuple[int, int]]:
    """Partitions by topic and broker, added up from the start."""
    counts: Counter[tuple[int, int]] = Counter()
    for bundle, broker in enumerate(owner):
        topics, partitions = problem.spread.of(bundle)
        for topic, count in zip(topics.tolist(), partitions.tolist(), strict=True):
            counts[topic, broker] += count
    return counts


@given(spread_problems(), bands, st.integers(0, 12))
def test_repairs_break_nothing_and_no_receiver_is_beyond_a_limit(
    problem: BalanceProblem, band: Band, limit: int
) -> None:
    relief = relieve_hard(problem, band, limit)
    owner, held = problem.owner.tolist(), problem.held.copy()
    assert len(relief.moves) <= limit
    assert len({move.bundle for move in relief.moves}) == len(relief.moves)
    counted = problem.is_counted
    before = np.array(usages(problem, owner))
    most = band.trigger(float(before[counted].mean()) if counted.any() else 0.0) + 1e-6
    for move in relief.moves:
        was_beyond = not within(held[move.source], problem.most[move.source]) or any(
            count > problem.spread.cap > 0
            for (_, broker), count in counts_of(problem, owner).items()
            if broker == move.source
        )
        assert was_beyond
        held[move.source] -= problem.takes[move.bundle]
        held[move.destination] += problem.takes[move.bundle]
        assert owner[move.bundle] == move.source != move.destination
        owner[move.bundle] = move.destination
        assert (held[move.destination] <= problem.most[move.destination]).all()
        counts = counts_of(problem, owner)
        topics, _ = problem.spread.of(move.bundle)
        if problem.spread.cap:
            assert all(
                counts[topic, move.destination] <= problem.spread.cap for topic in topics.tolist()
            )
        assert usages(problem, owner)[move.destination] <= most
        assert problem.is_movable[move.bundle]
        assert problem.is_giving[move.source]
        assert problem.is_receiving[move.destination]
        assert problem.allowed[problem.kind[move.bundle], move.destination]
        assert problem.avoid[move.bundle] != move.destination
    assert apply_moves(problem, tuple(relief.moves)).owner.tolist() == owner


@given(spread_problems(), bands)
def test_who_stays_beyond_is_named(problem: BalanceProblem, band: Band) -> None:
    relief = relieve_hard(problem, band, 1000)
    after = apply_moves(problem, tuple(relief.moves))
    beyond = ~within(after.held, after.most) & problem.is_giving
    if problem.spread.cap:
        for (_, broker), count in counts_of(after, after.owner.tolist()).items():
            beyond[broker] |= count > problem.spread.cap and bool(problem.is_giving[broker])
    assert set(np.flatnonzero(beyond).tolist()) == set(relief.stuck)


@given(spread_problems(), bands)
def test_balance_brings_no_broker_beyond_the_cap(problem: BalanceProblem, band: Band) -> None:
    owner = problem.owner.tolist()
    for move in relieve(problem, band).moves:
        owner[move.bundle] = move.destination
        topics, _ = problem.spread.of(move.bundle)
        counts = counts_of(problem, owner)
        if problem.spread.cap:
            assert all(
                counts[topic, move.destination] <= problem.spread.cap for topic in topics.tolist()
            )


@given(spread_problems(), st.data())
def test_counts_follow_every_move(problem: BalanceProblem, data: st.DataObject) -> None:
    brokers, owner = len(problem.capacity), problem.owner.tolist()
    counts = SpreadCounts.of(problem.spread, problem.owner, brokers)
    for _ in range(data.draw(st.integers(0, 5))) if owner else ():
        bundle = data.draw(st.integers(0, len(owner) - 1))
        destination = data.draw(st.integers(0, brokers - 1))
        counts.move(bundle, owner[bundle], destination)
        owner[bundle] = destination
    expected = counts_of(problem, owner)
    for topic in range(len(problem.spread.fair)):
        assert counts.row(topic).tolist() == [expected[topic, each] for each in range(brokers)]
