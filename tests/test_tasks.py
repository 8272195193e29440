"""Tasks have a name and an owner."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from broker_ctl.lab.time import in_virtual_time
from broker_ctl.tasks import TaskFaults, TaskScope, run_all, wait_until
from tests.support.time.waiting import eventually


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def fail() -> None:
    raise ValueError("on purpose")


@in_virtual_time
async def test_tasks_are_named_after_their_owner_and_end_with_it() -> None:
    async with TaskScope("owner") as scope:
        task = scope.start(never(), "work")
        assert task.get_name() == "owner: work"
        assert len(scope) == 1
    assert task.cancelled()
    assert len(scope) == 0


@in_virtual_time
async def test_works_side_by_side_have_names_and_end_with_the_first_that_fails() -> None:
    names: list[str] = []

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        names.append(task.get_name())
        await never()

    with pytest.raises(ExceptionGroup, match="in a TaskGroup"):
        await run_all([("first", work()), ("second", work()), ("third", fail())])
    assert names == ["first", "second"]


@pytest.mark.parametrize("work", [never, fail])
@in_virtual_time
async def test_what_functions_know_is_freed_with_the_error_of_works_side_by_side(
    work: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    known: list[weakref.ref[TaskFaults]] = []

    async def knows() -> None:
        faults = TaskFaults()
        known.append(weakref.ref(faults))
        await run_all([("work", work())])

    gc.disable()
    try:
        async with TaskScope("test") as scope:
            task = scope.start(knows(), "knows", is_joined=True)
            await asyncio.sleep(1.0)
            task.cancel()
            with suppress(asyncio.CancelledError, ExceptionGroup):
                await task
            del task
        await eventually(lambda: [each() for each in known] == [None], 5.0)
    finally:
        gc.enable()


@in_virtual_time
async def test_tasks_end_in_the_order_in_which_they_were_started() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await never()
        finally:
            ended.append(number)

    async with TaskScope("owner") as scope:
        for number in range(50):
            scope.start(work(number), f"work {number}")
        await asyncio.sleep(0)
    assert ended == list(range(50))


@in_virtual_time
async def test_the_failure_of_one_task_leaves_the_others_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = TaskFaults()
    with faults.collecting():
        scope = TaskScope("owner")
        other = scope.start(never(), "other")
        with caplog.at_level(logging.ERROR):
            await asyncio.wait([scope.start(fail(), "bad")])
        assert (faults.failures, faults.dead) == (1, ())
        assert "owner: bad failed: on purpose" in caplog.text
        assert not other.done()
        await scope.close()


@in_virtual_time
async def test_the_failure_of_a_joined_task_is_raised_to_its_caller_and_is_not_a_fault() -> None:
    faults = TaskFaults()
    with faults.collecting():
        async with TaskScope("owner") as scope:
            with pytest.raises(ValueError, match="on purpose"):
                await scope.start(fail(), "joined", is_joined=True)
        assert faults.failures == 0


@in_virtual_time
async def test_a_kept_task_that_has_ended_is_reported_dead_until_its_scope_ends() -> None:
    faults = TaskFaults()
    with faults.collecting():
        async with TaskScope("owner") as scope, TaskScope("other") as other:
            await asyncio.wait([scope.keep(fail(), "watch"), other.keep(fail(), "watch")])
            assert (faults.failures, set(faults.dead)) == (2, {"owner: watch", "other: watch"})
            await other.close()
            assert list(faults.dead) == ["owner: watch"]
        assert not faults.dead


@in_virtual_time
async def test_faults_are_counted_for_the_daemon_in_which_they_happen() -> None:
    one, two = TaskFaults(), TaskFaults()

    async def daemon(faults: TaskFaults) -> None:
        with faults.collecting():
            async with TaskScope("owner") as scope:
                # Also of a task that another task has started.
                await scope.start(begin(scope), "begin")
                await eventually(lambda: faults.failures)

    async def begin(scope: TaskScope) -> None:
        scope.start(fail(), "bad")

    async with asyncio.TaskGroup() as group:
        group.create_task(daemon(one), name="one")
        group.create_task(daemon(two), name="two")
    assert (one.failures, two.failures) == (1, 1)


@in_virtual_time
async def test_closing_waits_until_every_task_has_given_up() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await never()
        finally:
            await asyncio.sleep(3.0)
            ended.append("work")

    scope = TaskScope("owner")
    scope.start(work(), "work")
    await asyncio.sleep(0)
    await scope.close()
    assert ended == ["work"]


@in_virtual_time
async def test_a_closed_scope_starts_nothing() -> None:
    scope = TaskScope("owner")
    await scope.close()
    with pytest.raises(RuntimeError, match="owner is closed: late not started"):
        scope.start(never(), "late")


@in_virtual_time
async def test_a_task_may_close_its_own_scope() -> None:
    scope = TaskScope("owner")
    other = scope.start(never(), "other")
    await scope.start(scope.close(), "closing")
    assert other.cancelled()


@in_virtual_time
async def test_a_wait_ends_when_its_condition_holds_or_at_the_limit() -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def after_two_seconds() -> bool:
        return loop.time() > began_s + 2.0

    assert await wait_until(after_two_seconds, 5.0)
    assert loop.time() - began_s == pytest.approx(2.1, abs=0.1)

    async def hangs() -> bool:
        await never()
        return True

    assert not await wait_until(hangs, 1.0)
