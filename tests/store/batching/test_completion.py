import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.store.batching.completion import MOST_A_TURN as MOST
from broker_ctl.store.batching.completion import Completion
from broker_ctl.testing.virtual_time import VirtualLoop


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(1, 300)), max_size=12))
def test_all_is_settled_once_in_order_and_a_few_in_each_turn(steps: list[int | None]) -> None:
    async def scenario() -> None:
        settled: list[int] = []
        turn, in_turn = 0, dict[int, int]()

        def settle(part: Sequence[int]) -> None:
            assert 0 < len(part) <= MOST
            settled.extend(part)
            in_turn[turn] = in_turn.get(turn, 0) + len(part)

        settling, number = Completion[int](settle), 0
        for step in [*steps, *[None] * 100]:
            if step is None:
                await asyncio.sleep(0)
                turn += 1
            else:
                settling.put(range(number, number + step))
                number += step
        assert settled == list(range(number))
        # What comes while nothing waits is settled in the turn in which it came, and the next part
        # before this scenario goes on.
        assert max(in_turn.values(), default=0) <= 2 * MOST

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


async def test_other_tasks_run_between_the_parts_that_are_settled() -> None:
    seen: list[object] = []
    settling = Completion[int](lambda part: seen.append(len(part)))
    settling.put(range(1000))

    async def bystander() -> None:
        for _ in range(3):
            seen.append("bystander")
            await asyncio.sleep(0)

    await bystander()
    for _ in range(1 + 1000 // MOST):
        await asyncio.sleep(0)
    assert seen[:6] == [MOST, "bystander"] * 3
    numbers = [entry for entry in seen if isinstance(entry, int)]
    assert numbers == [MOST] * (1000 // MOST) + [1000 % MOST]


async def test_a_result_that_comes_while_others_are_settled_waits_behind_them() -> None:
    settled: list[int] = []
    settling = Completion[int](settled.extend)
    settling.put(range(MOST + 1))
    settling.put([MOST + 1])
    assert settled == list(range(MOST))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert settled == list(range(MOST + 2))
