"""Who is woken first, and how many in a turn."""

import asyncio
from collections.abc import Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.lab.time import ManualClock, VirtualLoop
from broker_ctl.store.batching.entries import FEWEST_A_TURN, MOST_A_TURN, TURN_S, Settling
from broker_ctl.store.interface import RequestClass

CONTROL, INTERACTIVE, BULK = RequestClass
SLOW_S: Final = TURN_S * 2


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.tuples(st.sampled_from(RequestClass), st.integers(1, 300))),
        max_size=12,
    ),
    st.booleans(),
)
def test_all_is_settled_once_in_the_order_of_its_class_and_a_few_in_each_turn(
    steps: list[tuple[RequestClass, int] | None], is_slow: bool
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        settled: dict[RequestClass, list[int]] = {each: [] for each in RequestClass}
        put = dict.fromkeys(RequestClass, 0)
        turn, in_turn = 0, dict[int, int]()

        def settle(part: Sequence[tuple[RequestClass, int]]) -> None:
            assert 0 < len(part) <= MOST_A_TURN
            for request_class, number in part:
                settled[request_class].append(number)
            in_turn[turn] = in_turn.get(turn, 0) + len(part)

        settling = Settling(clock)
        for step in [*steps, *[None] * 300]:
            if step is None:
                clock.time_s += SLOW_S if is_slow else 0.0
                await asyncio.sleep(0)
                turn += 1
            else:
                request_class, count = step
                first = put[request_class]
                put[request_class] += count
                batch = [(request_class, number) for number in range(first, first + count)]
                settling.put(request_class, batch, settle)
        assert settled == {each: list(range(put[each])) for each in RequestClass}
        # What comes while nothing waits is settled in the turn in which it came, and the next part
        # before this scenario goes on; the classes behind have their share besides.
        assert max(in_turn.values(), default=0) <= 3 * MOST_A_TURN

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


async def test_other_tasks_run_between_the_parts_that_are_settled() -> None:
    seen: list[str] = []
    settling = Settling(ManualClock())
    settling.put(BULK, range(1000), lambda _: seen.append("part"))

    async def bystander() -> None:
        for _ in range(3):
            seen.append("bystander")
            await asyncio.sleep(0)

    await bystander()
    assert seen[:6] == ["part", "bystander"] * 3


async def test_what_is_more_urgent_is_settled_before_all_that_waits() -> None:
    settled: list[str] = []
    settling = Settling(ManualClock())
    settling.put(BULK, range(1000), lambda _: settled.append("bulk"))
    settling.put(INTERACTIVE, [0], lambda _: settled.append("interactive"))
    settling.put(CONTROL, [0], lambda _: settled.append("control"))
    assert settled == ["bulk"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert settled[:3] == ["bulk", "control", "interactive"]


async def test_a_class_behind_has_a_share_of_every_turn() -> None:
    settled: list[int] = []
    settling = Settling(ManualClock())
    settling.put(INTERACTIVE, range(100_000), lambda _: None)
    settling.put(BULK, range(1000), settled.extend)
    for _ in range(10):
        await asyncio.sleep(0)
    assert settled


async def test_long_turns_wake_fewer_callers_and_short_ones_more() -> None:
    clock, parts = ManualClock(), list[int]()
    settling = Settling(clock)
    settling.put(BULK, range(1_000_000), lambda part: parts.append(len(part)))

    async def turns(count: int, each_s: float) -> int:
        for _ in range(count):
            clock.time_s += each_s
            await asyncio.sleep(0)
        return parts[-1]

    assert await turns(50, SLOW_S) == FEWEST_A_TURN
    assert await turns(100, TURN_S / 2) == MOST_A_TURN
    assert await turns(50, SLOW_S) == FEWEST_A_TURN


async def test_a_result_that_comes_while_others_are_settled_waits_behind_them() -> None:
    settled: list[int] = []
    settling = Settling(ManualClock())
    settling.put(BULK, range(100), settled.extend)
    first = len(settled)
    settling.put(BULK, [100], settled.extend)
    assert settled == list(range(first))
    for _ in range(10):
        await asyncio.sleep(0)
    assert settled == list(range(101))
