"""In which iteration of the loop requests start; time passes only where a test makes it pass."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from broker_ctl.api.http.limits.requests import Turns
from broker_ctl.lab.time import ManualClock

REQUEST_S = 0.003
# Of 10 ms: the fourth begins at 9 ms.
IN_ONE_TURN = 4


class Requests:
    """Requests that take ``REQUEST_S`` each without waiting for anything."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.turns = Turns(self.clock)
        self.iteration = 0
        self.started: list[tuple[int, str]] = []
        self._ends = False

    async def all(self, names: Iterable[str], took_s: float = REQUEST_S) -> None:
        """Have these requests arrive at the same time, and wait for the end of all."""
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self.request(name, took_s), name=name)

    async def request(self, name: str, took_s: float = REQUEST_S) -> None:
        if not self.turns.take():
            await self.turns.wait(is_urgent=name.startswith("health"))
        self.started.append((self.iteration, name))
        self.clock.time_s += took_s

    def count(self) -> None:
        """Count the iterations of the loop."""
        self.iteration += 1
        if not self._ends:
            asyncio.get_running_loop().call_soon(self.count)

    def end(self) -> None:
        self._ends = True

    def by_iteration(self) -> list[list[str]]:
        numbers = sorted({number for number, _ in self.started})
        return [[name for number, name in self.started if number == each] for each in numbers]


@pytest.fixture
async def requests() -> AsyncIterator[Requests]:
    found = Requests()
    found.count()
    yield found
    found.end()


async def test_each_iteration_starts_as_many_as_its_time_allows_in_their_order(
    requests: Requests,
) -> None:
    names = [f"r{number:02}" for number in range(10 * IN_ONE_TURN)]
    await requests.all(names)
    assert [name for _, name in requests.started] == names
    assert {len(names) for names in requests.by_iteration()} == {IN_ONE_TURN}


async def test_one_that_takes_long_has_an_iteration_for_itself(requests: Requests) -> None:
    await requests.all([f"r{number}" for number in range(5)], took_s=1.0)
    assert requests.by_iteration() == [["r0"], ["r1"], ["r2"], ["r3"], ["r4"]]


async def test_health_checks_overtake_all_that_wait(requests: Requests) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(requests.request(f"r{number:03}"), name="request")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        before = len(requests.started)
        await requests.all([f"health{number}" for number in range(3 * IN_ONE_TURN)])
    names = [name for _, name in requests.started]
    assert names.index("health11") <= before + 4 * IN_ONE_TURN
    assert len(names) == 200 + 3 * IN_ONE_TURN


async def test_other_work_of_the_loop_leaves_one_request_to_each_turn(requests: Requests) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(requests.all([f"r{number}" for number in range(8)]), name="all")
        for _ in range(100):
            await asyncio.sleep(0)
            requests.clock.time_s += 1.0
        assert len(requests.started) == 8


async def test_a_flood_of_health_checks_leaves_turns_to_each_of_them(requests: Requests) -> None:
    names = [f"health{number:03}" for number in range(50)]
    await requests.all(names)
    assert max(map(len, requests.by_iteration())) == IN_ONE_TURN


async def test_a_cancelled_request_leaves_its_place_to_the_next(requests: Requests) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(requests.request(f"r{number}"), name="request")
            for number in range(12)
        ]
        await asyncio.sleep(0)
        tasks[IN_ONE_TURN].cancel()
    assert f"r{IN_ONE_TURN}" not in {name for _, name in requests.started}
    assert len(requests.started) == len(tasks) - 1
    assert requests.turns.take()
