import asyncio

from broker_ctl.coordination.cooperative import run_cooperatively
from broker_ctl.core.model.steps import Steps


async def test_everybody_else_has_a_turn_between_two_steps() -> None:
    order: list[str] = []

    def long_work() -> Steps[int]:
        for number in range(3):
            order.append(f"step {number}")
            yield
        return 7

    async def other() -> None:
        for number in range(3):
            order.append(f"turn {number}")
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        work = group.create_task(run_cooperatively(long_work()), name="work")
        group.create_task(other(), name="other")
    assert work.result() == 7
    assert order == ["step 0", "turn 0", "step 1", "turn 1", "step 2", "turn 2"]
