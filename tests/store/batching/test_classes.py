"""Requests of one class wait for none of another, each in the lanes of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import RequestClass, requests_as
from tests.store.batching.recording_store import Bench, bench

# One batch on its way fills a lane.
NARROW = BatchRules(max_in_flight=1, max_operations=2, follows_round_trip=False, max_delay_s=0.001)
KINDS: dict[str, Callable[[BatchedStore, str], Coroutine[Any, Any, object]]] = {
    "reads": lambda store, path: store.get(path),
    "writes": lambda store, path: store.create(path),
}


def sent(built: Bench) -> int:
    """How often anything was given to the connection."""
    return len(built.under.reads) + len(built.under.writes) + len(built.under.alone)


def hold(built: Bench) -> asyncio.Event:
    """Hold up every message on its way until the event."""
    passed = asyncio.Event()

    async def transit() -> None:
        await passed.wait()

    built.transit = transit
    return passed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storm", RequestClass, ids=lambda one: one.name.lower())
@in_virtual_time
async def test_a_lane_that_is_full_holds_up_no_other_class(kind: str, storm: RequestClass) -> None:
    ask = KINDS[kind]
    async with bench(NARROW) as built, asyncio.TaskGroup() as tasks:
        passed = hold(built)
        with requests_as(storm):
            for number in range(20):
                tasks.create_task(ask(built.store, f"/{number}"), name="storm")
        await asyncio.sleep(0.1)
        before = sent(built)
        for one in RequestClass:
            with requests_as(one):
                tasks.create_task(ask(built.store, f"/{one.name}"), name=one.name)
        await asyncio.sleep(0.1)
        # Those of the two other classes.
        assert sent(built) == before + 2
        passed.set()


@pytest.mark.parametrize("kind", KINDS)
@in_virtual_time
async def test_only_bulk_requests_have_a_window_that_is_small_at_first(kind: str) -> None:
    ask, found = KINDS[kind], {}
    for one in RequestClass:
        async with bench() as built, asyncio.TaskGroup() as tasks:
            passed = hold(built)
            with requests_as(one):
                for number in range(1000):
                    tasks.create_task(ask(built.store, f"/{number}"), name="ask")
            await asyncio.sleep(0.1)
            found[one] = sum(map(len, (*built.under.reads, *built.under.writes)))
            passed.set()
    assert found[RequestClass.BULK] < 200
    assert min(found[RequestClass.CONTROL], found[RequestClass.INTERACTIVE]) > 500


@pytest.mark.parametrize("kind", KINDS)
@in_virtual_time
async def test_a_bulk_request_waits_for_others_while_one_is_on_its_way(kind: str) -> None:
    ask, found = KINDS[kind], {}
    for one in RequestClass:
        async with bench(BatchRules(max_delay_s=1.0)) as built, asyncio.TaskGroup() as tasks:
            passed = hold(built)
            with requests_as(one):
                for number in range(2):
                    tasks.create_task(ask(built.store, f"/{number}"), name="ask")
                    await asyncio.sleep(0.1)
            found[one] = sent(built)
            passed.set()
    assert found == {
        RequestClass.CONTROL: 2,
        RequestClass.INTERACTIVE: 2,
        RequestClass.BULK: 1,
    }
