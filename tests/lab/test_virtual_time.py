"""Virtual time: timers fire in order without waiting, and a loop without work says so."""

import asyncio

import pytest

from broker_ctl.lab.time import LoopClock, VirtualLoop, in_virtual_time


def test_the_clock_jumps_to_the_next_timer() -> None:
    clock, fired = LoopClock(), list[tuple[str, float]]()

    async def wait(name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        fired.append((name, clock.now_s()))

    @in_virtual_time
    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait("late", 3600.0))
            group.create_task(wait("early", 60.0))
        assert clock.wall_ms() == 4_600_000

    run()
    assert fired == [("early", 1060.0), ("late", 4600.0)]


def test_a_loop_in_which_nothing_can_happen_raises() -> None:
    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with (
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
        pytest.raises(RuntimeError, match="deadlock"),
    ):
        runner.run(wait_for_ever())
