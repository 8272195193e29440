"""Moves of a plan are ordered so that no broker is fuller on the way than before or after."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.planning.order import Order, Step, order_moves
from broker_ctl.core.strategies.balance.resources import Demand

NOTHING = 1e-6
Brokers = Mapping[str, Demand]


def usage(load: Brokers, capacity: Brokers) -> float:
    """Of the fullest resource of the fullest broker."""
    return max(a / c for each in load for a, c in zip(load[each], capacity[each], strict=True))


def moved(load: Brokers, steps: list[Step], started: set[int], ended: set[int]) -> Brokers:
    """Loads in the worst case: bundles arrive at once, and leave at the end of their moves."""
    found = {each: list(values) for each, values in load.items()}
    for number in started:
        step = steps[number]
        for place, amount in enumerate(step.demand):
            found[step.destination][place] += amount
            if number in ended:
                found[step.source][place] -= amount
    return {each: tuple(values) for each, values in found.items()}


def highest_on_the_way(
    load: Brokers, capacity: Brokers, steps: list[Step], order: Order, rng: random.Random
) -> float:
    """Usage of the fullest broker while the moves start as early as they may and end by chance."""
    started: set[int] = set()
    ended: set[int] = set()
    highest = usage(load, capacity)
    while len(ended) < len(steps):
        for number in order.sequence:
            if number not in started and ended.issuperset(order.waits.get(number, ())):
                started.add(number)
        highest = max(highest, usage(moved(load, steps, started, ended), capacity))
        assert started > ended
        ended.add(rng.choice(sorted(started - ended)))
    return highest


@st.composite
def plans(draw: st.DrawFn) -> tuple[Brokers, Brokers, list[Step]]:
    """Up to five brokers of several sizes, with bundles of which some move once."""
    resources = draw(st.integers(1, 3))
    amounts = st.tuples(*[st.floats(0, 10) for _ in range(resources)])
    brokers = [f"b{number}" for number in range(draw(st.integers(2, 5)))]
    capacity = {
        each: draw(st.tuples(*[st.floats(20, 100) for _ in range(resources)])) for each in brokers
    }
    load = {each: draw(amounts) for each in brokers}
    steps = []
    for _ in range(draw(st.integers(0, 10))):
        source, destination = draw(st.permutations(brokers))[:2]
        steps.append(Step(source, destination, draw(amounts)))
        load[source] = tuple(a + b for a, b in zip(load[source], steps[-1].demand, strict=True))
    return load, capacity, steps


@given(plans(), st.integers(0, 99))
def test_no_broker_is_fuller_on_the_way_than_before_or_after(
    plan: tuple[Brokers, Brokers, list[Step]], seed: int
) -> None:
    load, capacity, steps = plan
    order = order_moves(load, capacity, steps)
    assert sorted(order.sequence) == list(range(len(steps)))
    everything = set(range(len(steps)))
    after = usage(moved(load, steps, everything, everything), capacity)
    assert order.ceiling == pytest.approx(max(usage(load, capacity), after), abs=NOTHING)
    found = highest_on_the_way(load, capacity, steps, order, random.Random(seed))
    assert found <= order.highest + NOTHING
    if not order.forced:
        assert found <= order.ceiling + NOTHING


EVEN = {"a": (100.0,), "b": (100.0,), "c": (100.0,)}


def test_a_move_waits_for_those_that_make_room() -> None:
    load = {"a": (80.0,), "b": (75.0,), "c": (10.0,)}
    steps = [Step("a", "b", (30.0,)), Step("b", "c", (40.0,))]
    order = order_moves(load, EVEN, steps)
    assert (order.sequence, order.waits, order.forced) == ((1, 0), {0: (1,)}, ())
    assert order.highest == order.ceiling == pytest.approx(0.8)


def test_moves_without_a_conflict_keep_their_order_and_wait_for_nothing() -> None:
    load = {"a": (80.0,), "b": (10.0,), "c": (10.0,)}
    steps = [Step("a", "c", (20.0,)), Step("a", "b", (30.0,))]
    order = order_moves(load, EVEN, steps)
    assert (order.sequence, order.waits) == ((0, 1), {})


def test_full_brokers_that_exchange_bundles_exceed_the_ceiling_as_little_as_possible() -> None:
    load = {"a": (80.0,), "b": (80.0,), "c": (80.0,)}
    steps = [Step("a", "b", (30.0,)), Step("b", "a", (20.0,))]
    order = order_moves(load, EVEN, steps)
    assert (order.sequence, order.forced) == ((1, 0), (1,))
    assert order.highest == pytest.approx(1.0)
    # A smaller one first, or the larger one after it: b would have 110.
    assert order.waits == {0: (1,)}


def test_an_order_in_which_nothing_waits_is_caught() -> None:
    """The check of this file can fail."""
    load = {"a": (80.0,), "b": (75.0,), "c": (10.0,)}
    steps = [Step("a", "b", (30.0,)), Step("b", "c", (40.0,))]
    hasty = Order((0, 1), {}, 0.8, 0.8, ())
    assert highest_on_the_way(load, EVEN, steps, hasty, random.Random(1)) > 0.8 + NOTHING
