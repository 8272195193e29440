"""The queue of events of a controller has one consumer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from broker_ctl.controller.event_queue import EventQueue
from broker_ctl.errors import Fenced, NoController, OperationTimeout, TopicMissing
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.tasks import TaskScope
from tests.support.time.waiting import eventually


@asynccontextmanager
async def consumed() -> AsyncIterator[tuple[EventQueue, "asyncio.Task[None]"]]:
    queue = EventQueue(LoopClock(), ControllerInstruments())
    async with TaskScope("test") as scope:
        yield queue, scope.start(queue.run(), "events", is_joined=True)


@in_virtual_time
async def test_news_of_one_kind_that_wait_are_one_and_what_comes_meanwhile_is_another() -> None:
    story: list[str] = []
    async with consumed() as (queue, _):

        async def look() -> None:
            story.append("look")
            if len(story) == 1:
                queue.enqueue_once("look", look)

        for _ in range(5):
            queue.enqueue_once("look", look)
        await eventually(lambda: len(story) == 2 and len(queue) == 0)
        await asyncio.sleep(1.0)
        assert story == ["look", "look"]


@in_virtual_time
async def test_events_are_handled_in_order_one_at_a_time() -> None:
    story: list[str] = []
    async with consumed() as (queue, _):

        async def work(name: str) -> str:
            story.append(f"{name} begins")
            await asyncio.sleep(1.0)
            story.append(f"{name} ends")
            return name

        async with asyncio.TaskGroup() as callers:
            calls = [
                callers.create_task(queue.call(name, partial(work, name))) for name in ("a", "b")
            ]
        assert [call.result() for call in calls] == ["a", "b"]
        assert story == ["a begins", "a ends", "b begins", "b ends"]


@in_virtual_time
async def test_an_error_is_raised_to_the_caller_and_the_next_event_is_handled() -> None:
    async with consumed() as (queue, _):

        async def refuse() -> None:
            raise TopicMissing("there is no topic t")

        async def fail() -> None:
            raise OperationTimeout("no answer")

        async def slip() -> None:
            raise ZeroDivisionError

        async def answer() -> int:
            return 7

        with pytest.raises(TopicMissing, match="no topic t"):
            await queue.call("refuse", refuse)
        with pytest.raises(ZeroDivisionError):
            await queue.call("slip", slip)
        queue.enqueue_once("fail", fail)
        assert await queue.call("answer", answer) == 7


@in_virtual_time
async def test_a_refused_epoch_ends_the_loop_and_everybody_who_waits_hears_of_it() -> None:
    async with consumed() as (queue, task):

        async def deposed() -> None:
            raise Fenced("epoch 1 is over")

        async def answer() -> int:
            return 7

        async with TaskScope("callers") as callers:
            first = callers.start(queue.call("deposed", deposed), "first", is_joined=True)
            second = callers.start(queue.call("answer", answer), "second", is_joined=True)
            await asyncio.wait([task])
            queue.close()
            for call in (first, second):
                with pytest.raises(NoController):
                    await call
        with pytest.raises(Fenced):
            task.result()
        with pytest.raises(NoController):
            await queue.call("answer", answer)


@in_virtual_time
async def test_an_event_whose_caller_was_cancelled_before_its_turn_is_skipped() -> None:
    done: list[int] = []
    async with consumed() as (queue, _), TaskScope("callers") as callers:
        gate = asyncio.Event()

        async def wait() -> None:
            await gate.wait()

        async def work() -> None:
            done.append(1)

        callers.start(queue.call("wait", wait), "wait")
        gone = callers.start(queue.call("work", work), "work", is_joined=True)
        await eventually(lambda: len(queue) == 1)
        gone.cancel()
        await asyncio.wait([gone])
        gate.set()
        await queue.call("again", work)
        assert done == [1]
