"""Blocks with a deadline: one timer ends them all, each in its time, and only by its own."""

import asyncio
from collections.abc import Awaitable

import pytest

from broker_ctl.api.http.limits.requests import Deadlines
from broker_ctl.errors import BrokerCtlError
from broker_ctl.lab.time import in_virtual_time

LIMIT_S = 30.0


class Scene:
    """Requests, and what each of them met, with the second."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.loop = asyncio.get_running_loop()
        self.met: list[str] = []

    def request(
        self, name: str, work: Awaitable[object], limit_s: float = LIMIT_S
    ) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                with self.deadlines.within(limit_s):
                    await work
            except (BrokerCtlError, TimeoutError, KeyError, asyncio.CancelledError) as error:
                what = f"{type(error).__name__}({error})"
            else:
                what = "done"
            own = asyncio.current_task()
            assert own is not None
            self.met.append(f"{self.loop.time():g} {name} {what} {own.cancelling()}")
            # A cancellation that was left over would come here.
            await asyncio.sleep(0)

        return self.loop.create_task(run(), name=name)

    def hang(self) -> asyncio.Future[None]:
        return self.loop.create_future()


@in_virtual_time
async def test_each_request_that_hangs_is_ended_in_its_own_time() -> None:
    scene = Scene()
    began_s = scene.loop.time()
    tasks = []
    for number in range(3):
        tasks.append(scene.request(f"r{number}", scene.hang()))
        await asyncio.sleep(1)
    for task in tasks:
        await task
    timeout = "ApiError(not done within 30 s)"
    assert scene.met == [f"{began_s + LIMIT_S + n:g} r{n} {timeout} 0" for n in range(3)]


@in_virtual_time
async def test_all_requests_of_a_limit_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    timers: list[float] = []
    call_at = scene.loop.call_at

    def counted(when: float, *args: object) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *args)  # type: ignore[arg-type]

    done = scene.hang()
    done.set_result(None)
    with monkeypatch.context() as patched:
        patched.setattr(scene.loop, "call_at", counted)
        for number in range(100):
            await scene.request(f"r{number}", done)
    assert len(timers) == 1
    assert {met.split(maxsplit=2)[2] for met in scene.met} == {"done 0"}


@in_virtual_time
async def test_a_request_that_was_done_in_time_is_not_ended_later() -> None:
    scene = Scene()

    async def two() -> None:
        with scene.deadlines.within(LIMIT_S):
            await asyncio.sleep(LIMIT_S - 1)
        await asyncio.sleep(LIMIT_S)

    await two()
    await scene.request("next", asyncio.sleep(LIMIT_S - 1))
    assert scene.met[0].endswith(" next done 0")


@in_virtual_time
async def test_a_short_limit_does_not_wait_for_a_long_one() -> None:
    scene = Scene()
    began_s = scene.loop.time()
    long = scene.request("long", scene.hang(), 300.0)
    await scene.request("short", scene.hang())
    await long
    assert [met.split()[:2] for met in scene.met] == [
        [f"{began_s + 30:g}", "short"],
        [f"{began_s + 300:g}", "long"],
    ]


@in_virtual_time
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_cancellation_from_elsewhere_stays_one(is_first: bool) -> None:
    scene = Scene()
    due_s = scene.loop.time() + LIMIT_S
    task = scene.request("a", scene.hang())
    # In one turn with the deadline, before it or after it.
    if is_first:
        scene.loop.call_at(due_s, task.cancel)
    await asyncio.sleep(0)
    if not is_first:
        scene.loop.call_at(due_s, task.cancel)
    await task
    assert scene.met == [f"{due_s:g} a CancelledError() 1"]


@in_virtual_time
async def test_another_error_of_a_request_is_that_error() -> None:
    scene = Scene()

    async def fail() -> None:
        try:
            await scene.hang()
        finally:
            raise KeyError("its own")

    async def miss() -> None:
        raise TimeoutError

    await scene.request("a", fail())
    await scene.request("b", miss())
    assert [met.split(maxsplit=1)[1] for met in scene.met] == [
        "a KeyError('its own') 0",
        "b TimeoutError() 0",
    ]


@in_virtual_time
async def test_closed_deadlines_end_no_request() -> None:
    scene = Scene()
    answer = scene.hang()
    task = scene.request("a", answer)
    await asyncio.sleep(0)
    scene.deadlines.close()
    await asyncio.sleep(LIMIT_S + 1)
    answer.set_result(None)
    await task
    assert scene.met[0].endswith(" a done 0")


@in_virtual_time
async def test_a_request_that_has_ended_leaves_no_deadline() -> None:
    scene = Scene()
    for work in (asyncio.sleep(0), scene.hang()):
        await scene.request("a", work)
        assert not scene.deadlines._queues[LIMIT_S]._in_progress
    scene.deadlines.close()
    assert not scene.deadlines._queues
