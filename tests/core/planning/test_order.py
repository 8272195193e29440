"""Moves of a plan are ordered so that no broker is fuller on the way than before or after it.

And so that no limit of a broker is exceeded on the way, whichever moves end first.
"""

import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.planning.order import LimitRoom, Order, OrderStep, order_moves
from broker_ctl.core.strategies.balance.demands import Demand

NOTHING = 1e-6
Brokers = Mapping[str, Demand]


def usage(load: Brokers, capacity: Brokers) -> float:
    """Of the fullest resource of the fullest broker."""
    return max(a / c for each in load for a, c in zip(load[each], capacity[each], strict=True))


def moved(load: Brokers, steps: list[OrderStep], started: set[int], ended: set[int]) -> Brokers:
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
    load: Brokers, capacity: Brokers, steps: list[OrderStep], order: Order, rng: random.Random
) -> float:
    """Usage of the fullest broker while the moves start as early as they may and end by chance."""
    started: set[int] = set()
    ended: set[int] = set()
    highest = usage(load, capacity)
    while len(ended) < len(order.sequence):
        for number in order.sequence:
            if number not in started and ended.issuperset(order.waits.get(number, ())):
                started.add(number)
        highest = max(highest, usage(moved(load, steps, started, ended), capacity))
        assert started > ended
        ended.add(rng.choice(sorted(started - ended)))
    return highest


@st.composite
def plans(draw: st.DrawFn) -> tuple[Brokers, Brokers, list[OrderStep]]:
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
        steps.append(OrderStep(source, destination, draw(amounts)))
        load[source] = tuple(a + b for a, b in zip(load[source], steps[-1].demand, strict=True))
    return load, capacity, steps


@given(plans(), st.integers(0, 99))
def test_no_broker_is_fuller_on_the_way_than_before_or_after(
    plan: tuple[Brokers, Brokers, list[OrderStep]], seed: int
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
    steps = [OrderStep("a", "b", (30.0,)), OrderStep("b", "c", (40.0,))]
    order = order_moves(load, EVEN, steps)
    assert (order.sequence, order.waits, order.forced) == ((1, 0), {0: (1,)}, ())
    assert order.highest == order.ceiling == pytest.approx(0.8)


def test_moves_without_a_conflict_keep_their_order_and_wait_for_nothing() -> None:
    load = {"a": (80.0,), "b": (10.0,), "c": (10.0,)}
    steps = [OrderStep("a", "c", (20.0,)), OrderStep("a", "b", (30.0,))]
    order = order_moves(load, EVEN, steps)
    assert (order.sequence, order.waits) == ((0, 1), {})


def test_full_brokers_that_exchange_bundles_exceed_the_ceiling_as_little_as_possible() -> None:
    load = {"a": (80.0,), "b": (80.0,), "c": (80.0,)}
    steps = [OrderStep("a", "b", (30.0,)), OrderStep("b", "a", (20.0,))]
    order = order_moves(load, EVEN, steps)
    assert (order.sequence, order.forced) == ((1, 0), (1,))
    assert order.highest == pytest.approx(1.0)
    # A smaller one first, or the larger one after it: b would have 110.
    assert order.waits == {0: (1,)}


def test_an_order_in_which_nothing_waits_is_caught() -> None:
    """The check of this file can fail."""
    load = {"a": (80.0,), "b": (75.0,), "c": (10.0,)}
    steps = [OrderStep("a", "b", (30.0,)), OrderStep("b", "c", (40.0,))]
    hasty = Order((0, 1), {}, 0.8, 0.8, ())
    assert highest_on_the_way(load, EVEN, steps, hasty, random.Random(1)) > 0.8 + NOTHING


# Limits.

NAMES = ("topics", "orders")


def broken_on_the_way(
    room: LimitRoom, steps: list[OrderStep], order: Order, rng: random.Random
) -> set[tuple[str, str]]:
    """Receivers and limits that are exceeded while moves start and end by chance."""
    held = {each: Counter(amounts) for each, amounts in room.held.items()}
    waiting, running, ended = set(order.sequence), set[int](), set[int]()
    broken = set()
    while waiting or running:
        able = {move for move in waiting if ended.issuperset(order.waits.get(move, ()))}
        move = rng.choice(sorted(able | running))
        step = steps[move]
        if move in running:
            running.remove(move)
            ended.add(move)
            held[step.source].subtract(step.takes)
            continue
        waiting.remove(move)
        running.add(move)
        held[step.destination].update(step.takes)
        most = room.most.get(step.destination, {})
        for name, amount in step.takes.items():
            if amount and held[step.destination][name] > most.get(name, room.otherwise):
                broken.add((step.destination, name))
    return broken


@st.composite
def limited(draw: st.DrawFn) -> tuple[Brokers, Brokers, list[OrderStep], LimitRoom]:
    """Few brokers that are nearly full of what is limited, and whose bundles change places."""
    brokers = [f"b{number}" for number in range(draw(st.integers(2, 5)))]
    count = st.integers(0, 3)
    load = {each: (float(draw(st.integers(0, 10))),) for each in brokers}
    held = {each: {name: float(draw(count)) for name in NAMES} for each in brokers}
    steps = []
    for _ in range(draw(st.integers(1, 12))):
        source, destination = draw(st.permutations(brokers))[:2]
        takes = {name: float(draw(count)) for name in NAMES}
        steps.append(OrderStep(source, destination, (float(draw(count)),), takes))
        load[source] = (load[source][0] + steps[-1].demand[0],)
        for name in NAMES:
            held[source][name] += takes[name]
    most = {
        each: {name: held[each][name] + draw(st.integers(0, 4)) for name in NAMES}
        for each in brokers
    }
    return load, dict.fromkeys(brokers, (20.0,)), steps, LimitRoom(held, most)


@given(limited(), st.integers(0, 99))
def test_no_limit_is_exceeded_on_the_way_and_what_has_room_in_turn_is_made(
    plan: tuple[Brokers, Brokers, list[OrderStep], LimitRoom], seed: int
) -> None:
    load, capacity, steps, room = plan
    before = {each: dict(amounts) for each, amounts in room.held.items()}
    order = order_moves(load, capacity, steps, room)
    assert room.held == before, "the room of the caller stays what it was"
    assert sorted([*order.sequence, *order.postponed]) == list(range(len(steps)))
    assert broken_on_the_way(room, steps, order, random.Random(seed)) == set()
    # One after another, in the order of the plan.
    held = {each: Counter(amounts) for each, amounts in before.items()}
    for move, step in enumerate(steps):
        there = held[step.destination]
        beyond = [
            name
            for name, amount in step.takes.items()
            if amount and there[name] + amount > room.most[step.destination][name]
        ]
        assert (move in order.postponed) == bool(beyond)
        if not beyond:
            there.update(step.takes)
            held[step.source].subtract(step.takes)
    # Likewise for usage.
    found = highest_on_the_way(load, capacity, steps, order, random.Random(seed))
    assert found <= order.highest + NOTHING
    if not order.forced:
        assert found <= order.ceiling + NOTHING


def topics(number: float) -> dict[str, float]:
    return {"topics": number}


def room_of(held: Mapping[str, float], most: float) -> LimitRoom:
    """Every broker may have as many topics."""
    return LimitRoom({each: topics(number) for each, number in held.items()}, {}, most)


def test_a_move_that_would_exceed_a_limit_waits_for_the_one_that_makes_room() -> None:
    """However empty its receiver is."""
    load = {"a": (50.0,), "b": (10.0,), "c": (10.0,)}
    steps = [OrderStep("b", "c", (1.0,), topics(4)), OrderStep("a", "b", (1.0,), topics(3))]
    room = room_of({"a": 5, "b": 9, "c": 0}, 10)
    order = order_moves(load, EVEN, steps, room)
    assert (order.sequence, order.waits, order.postponed) == ((0, 1), {1: (0,)}, {})


def test_what_has_no_room_even_in_turn_is_postponed() -> None:
    """Full brokers that exchange bundles would exceed a limit, whichever goes first."""
    load = {"a": (50.0,), "b": (10.0,)}
    steps = [OrderStep("a", "b", (1.0,), topics(2)), OrderStep("b", "a", (1.0,), topics(1))]
    order = order_moves(load, EVEN, steps, room_of({"a": 10, "b": 9}, 10))
    assert (order.sequence, order.postponed) == ((), {0: "topics", 1: "topics"})
    order = order_moves(load, EVEN, steps, room_of({"a": 10, "b": 8}, 10))
    assert (order.sequence, order.waits) == ((0, 1), {1: (0,)})


def test_limits_come_before_usage_where_moves_wait_for_each_other() -> None:
    """The last move would take the place of the first one, and nothing could move any more."""
    load = {"x": (90.0,), "b": (85.0,), "c": (10.0,), "y": (20.0,)}
    capacity = dict.fromkeys(load, (100.0,))
    steps = [
        OrderStep("x", "b", (20.0,), topics(1)),
        OrderStep("c", "x", (1.0,), topics(1)),
        OrderStep("b", "c", (30.0,), topics(1)),
        OrderStep("y", "b", (1.0,), topics(1)),
    ]
    room = room_of({"x": 10, "b": 9, "c": 10, "y": 5}, 10)
    order = order_moves(load, capacity, steps, room)
    assert (order.sequence, order.forced) == ((0, 1, 2, 3), (0,))
    assert order.waits == {1: (0,), 2: (1,), 3: (2,)}
    for seed in range(9):
        assert broken_on_the_way(room, steps, order, random.Random(seed)) == set()


def test_what_waits_for_a_limit_waits_for_usage_too() -> None:
    """The second move has room under the limit once the first has left, but not by usage."""
    load = {"a": (80.0,), "b": (75.0,), "c": (10.0,)}
    steps = [
        OrderStep("b", "c", (1.0,), topics(1)),
        OrderStep("a", "b", (30.0,), topics(1)),
        OrderStep("b", "c", (40.0,), topics(1)),
    ]
    order = order_moves(load, EVEN, steps, room_of({"a": 5, "b": 10, "c": 0}, 10))
    assert (order.sequence, order.forced) == ((0, 2, 1), ())
    assert order.waits == {1: (0, 2)}


def test_an_order_that_forgets_limits_is_caught() -> None:
    """The check of this file can fail."""
    load = {"a": (50.0,), "b": (10.0,), "c": (10.0,)}
    steps = [OrderStep("b", "c", (1.0,), topics(4)), OrderStep("a", "b", (1.0,), topics(3))]
    held = {"a": topics(5), "b": topics(9), "c": topics(0)}
    room = LimitRoom(held, dict.fromkeys(held, topics(10)))
    hasty = order_moves(load, EVEN, steps)
    broken = [broken_on_the_way(room, steps, hasty, random.Random(seed)) for seed in range(9)]
    assert {("b", "topics")} in broken


def test_many_thousand_moves_need_no_more_looks_than_a_few_for_each() -> None:
    """Moves to one broker that wait for those that leave it one by one."""
    count = 2000
    load = {"a": (float(count),), "b": (float(count),), "c": (0.0,)}
    steps = [OrderStep("b", "c", (0.1,), topics(1)) for _ in range(count)]
    steps += [OrderStep("a", "b", (0.1,), topics(1)) for _ in range(count)]
    room = CountingRoom({"a": topics(count), "b": topics(count), "c": topics(0)}, {}, float(count))
    order = order_moves(load, dict.fromkeys(load, (1e6,)), steps, room)
    assert len(order.sequence) == 2 * count
    assert CountingRoom.looks < 80 * len(steps)


class CountingRoom(LimitRoom):
    """Counts how often it is asked."""

    looks = 0

    def copy(self) -> "CountingRoom":
        return CountingRoom(
            {each: dict(amounts) for each, amounts in self.held.items()}, self.most, self.otherwise
        )

    def exceeded_by(self, broker_id: str, amounts: Mapping[str, float]) -> str | None:
        CountingRoom.looks += 1
        return super().exceeded_by(broker_id, amounts)
