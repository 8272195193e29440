"""Blocks that end with authority: theirs is one cancellation, and nobody else's is taken for it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker_ctl.broker.lookup.lookup import LeaseGuard
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.session import SessionAction, SessionState
from broker_ctl.errors import AuthorityLost
from broker_ctl.lab.time import in_virtual_time


class Watcher(SessionWatcher):
    """Authority that ends, and is said to have ended, exactly when a test says so."""

    def __init__(self) -> None:
        self._may_act = True
        self._heard: list[Callable[[SessionAction], None]] = []

    def listen(self, listener: Callable[[SessionAction], None]) -> None:
        self._heard.append(listener)

    @property
    def state(self) -> SessionState:
        return SessionState.CONNECTED

    def check(self) -> None:
        if not self._may_act:
            raise AuthorityLost("no authority")

    def fence(self) -> None:
        for listener in self._heard:
            listener(SessionAction.FENCE)

    def end(self) -> None:
        self._may_act = False
        self.fence()


class Scene:
    """One watcher, and what the tasks under it met, in their order."""

    def __init__(self) -> None:
        self.watcher = Watcher()
        self.authorised = LeaseGuard(self.watcher)
        self.met: list[str] = []
        self.loop = asyncio.get_running_loop()

    def task(self, work: Awaitable[object], name: str) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work
            except (AuthorityLost, TimeoutError, KeyError, asyncio.CancelledError) as error:
                kind = type(error).__name__
            else:
                kind = "done"
            own = asyncio.current_task()
            assert own is not None
            self.met.append(f"{name} {kind} {own.cancelling()}")
            # A cancellation that was left over would come here.
            await asyncio.sleep(0)
            self.met.append(f"{name} goes on")

        return self.loop.create_task(run(), name=name)

    async def wait_in_block(self, until: Awaitable[object] | None = None) -> None:
        with self.authorised.held():
            await (until or self.loop.create_future())


async def turn() -> None:
    """Let every task come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


@in_virtual_time
async def test_a_task_that_waits_in_a_block_gets_authority_lost_at_once_and_can_go_on() -> None:
    scene = Scene()
    task = scene.task(scene.wait_in_block(), "a")
    await turn()
    scene.watcher.end()
    await task
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_without_authority_a_block_is_not_entered() -> None:
    scene = Scene()
    scene.watcher.end()
    await scene.task(scene.wait_in_block(), "a")
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_a_late_fence_does_not_end_a_block_once_authority_is_back() -> None:
    scene = Scene()
    answer = scene.loop.create_future()
    task = scene.task(scene.wait_in_block(answer), "a")
    await turn()
    scene.watcher.fence()
    await turn()
    answer.set_result(None)
    await task
    assert scene.met == ["a done 0", "a goes on"]


@in_virtual_time
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_cancellation_from_elsewhere_stays_one(is_first: bool) -> None:
    scene = Scene()
    task = scene.task(scene.wait_in_block(), "a")
    await turn()
    if is_first:
        task.cancel()
        scene.watcher.end()
    else:
        scene.watcher.end()
        scene.loop.call_soon(task.cancel)
    await task
    assert scene.met == ["a CancelledError 1", "a goes on"]


@in_virtual_time
async def test_a_cancellation_of_before_the_block_does_not_hide_its_end() -> None:
    scene = Scene()

    async def clean_up() -> None:
        try:
            await scene.loop.create_future()
        except asyncio.CancelledError:
            await scene.wait_in_block()

    task = scene.task(clean_up(), "a")
    await turn()
    task.cancel()
    await turn()
    scene.watcher.end()
    await task
    assert scene.met == ["a AuthorityLost 1", "a goes on"]


@in_virtual_time
async def test_a_deadline_around_a_block_that_passes_in_the_same_turn_is_a_deadline() -> None:
    scene = Scene()

    async def within() -> None:
        async with asyncio.timeout(None) as deadline:
            scene.loop.call_later(1.0, scene.watcher.end)
            deadline.reschedule(scene.loop.time() + 1.0)
            await scene.wait_in_block()

    await scene.task(within(), "a")
    assert scene.met == ["a TimeoutError 0", "a goes on"]


@in_virtual_time
async def test_blocks_within_blocks_end_as_one() -> None:
    scene = Scene()
    inner: list[type[BaseException]] = []

    async def twice() -> None:
        with scene.authorised.held():
            try:
                await scene.wait_in_block()
            except BaseException as error:
                inner.append(type(error))
                raise

    task = scene.task(twice(), "a")
    await turn()
    scene.watcher.end()
    await task
    # The inner one does not take what is meant for the outer one, too.
    assert inner == [asyncio.CancelledError]
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_a_block_that_ends_just_before_it_is_ended_has_ended_well() -> None:
    scene = Scene()
    answer = scene.loop.create_future()
    task = scene.task(scene.wait_in_block(answer), "a")
    await turn()
    # In one turn: the task comes first.
    answer.set_result(None)
    scene.watcher.end()
    await task
    assert scene.met == ["a done 0", "a goes on"]


@in_virtual_time
async def test_an_answer_that_comes_just_after_the_end_is_none() -> None:
    scene = Scene()
    answer = scene.loop.create_future()
    task = scene.task(scene.wait_in_block(answer), "a")
    await turn()
    scene.watcher.end()
    scene.loop.call_soon(answer.set_result, None)
    await task
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_a_task_that_ends_authority_in_its_own_block_is_not_met_by_it_later() -> None:
    scene = Scene()

    async def end() -> None:
        with scene.authorised.held():
            scene.watcher.end()

    await scene.task(end(), "a")
    assert scene.met == ["a done 0", "a goes on"]


@in_virtual_time
async def test_a_task_that_ends_authority_in_its_own_block_is_ended_where_it_waits() -> None:
    scene = Scene()

    async def end() -> None:
        with scene.authorised.held():
            scene.watcher.end()
            await scene.loop.create_future()

    await scene.task(end(), "a")
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_of_several_blocks_in_turn_only_the_open_one_is_ended() -> None:
    scene = Scene()

    async def several() -> None:
        for _ in range(3):
            await scene.wait_in_block(asyncio.sleep(0))
        await scene.wait_in_block()

    task = scene.task(several(), "a")
    await turn()
    scene.watcher.end()
    await task
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_another_error_of_a_block_that_is_ended_is_that_error() -> None:
    scene = Scene()

    async def fail() -> None:
        with scene.authorised.held():
            try:
                await scene.loop.create_future()
            finally:
                raise KeyError("its own")

    task = scene.task(fail(), "a")
    await turn()
    scene.watcher.end()
    await task
    assert scene.met == ["a KeyError 0", "a goes on"]


@in_virtual_time
async def test_authority_that_ends_twice_cancels_once() -> None:
    scene = Scene()
    task = scene.task(scene.wait_in_block(), "a")
    await turn()
    scene.watcher.end()
    scene.watcher.end()
    await task
    assert scene.met == ["a AuthorityLost 0", "a goes on"]


@in_virtual_time
async def test_blocks_end_in_the_order_in_which_they_were_entered() -> None:
    scene = Scene()
    answer = scene.loop.create_future()

    async def again() -> None:
        await scene.wait_in_block(answer)
        await scene.wait_in_block()

    names = ["b", "again", "a", "d", "c"]
    works = [again() if name == "again" else scene.wait_in_block() for name in names]
    tasks = [scene.task(work, name) for work, name in zip(works, names, strict=True)]
    await turn()
    answer.set_result(None)
    await turn()
    scene.watcher.end()
    await asyncio.wait(tasks)
    ended = [met.split()[0] for met in scene.met if "AuthorityLost" in met]
    assert ended == ["b", "a", "d", "c", "again"]


@in_virtual_time
async def test_nothing_is_kept_of_a_block_that_was_left() -> None:
    scene = Scene()
    await scene.task(scene.wait_in_block(asyncio.sleep(0)), "a")
    task = scene.task(scene.wait_in_block(), "b")
    await turn()
    assert len(scene.authorised._under_way) == 1
    task.cancel()
    await task
    assert not scene.authorised._under_way
