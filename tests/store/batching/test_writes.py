"""What a refusal, a lost reply or a limit does to one write of a batch, and not to the others."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from functools import partial

import pytest

from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    InvalidPath,
    MultiFailed,
    NodeExists,
    NoNode,
    StoreError,
    TooLarge,
)
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.entries import WriteEntry, _copy
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Delete,
    Operation,
    RequestClass,
    SetData,
    Stat,
    Versioned,
    requests_as,
)
from tests.store.batching.recording_store import bench


async def outcome_of(work: Awaitable[object]) -> object:
    try:
        return await work
    except StoreError as error:
        return error


async def together(*works: Awaitable[object]) -> list[object]:
    """The outcomes of requests that are all made in one turn of the loop."""
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(outcome_of(work), name="ask") for work in works]
    return [task.result() for task in asked]


@in_virtual_time
async def test_of_many_creates_each_gets_its_own_result_or_error() -> None:
    rules = BatchRules(max_in_flight=4)
    async with bench(rules) as built:
        for number in range(0, 1000, 5):
            await built.under.create(f"/{number}")
        outcomes = await together(*(built.store.create(f"/{n}") for n in range(1000)))
        for number, outcome in enumerate(outcomes):
            if number % 5:
                assert isinstance(outcome, Versioned)
                assert outcome.path == f"/{number}"
            else:
                assert isinstance(outcome, NodeExists)
        assert len({id(outcome) for outcome in outcomes}) == 1000
        # Bounded, although there are hundreds of parts.
        assert built.under.most_in_flight <= 4
        assert await built.is_left_idle()


@in_virtual_time
async def test_creates_that_miss_the_same_parent_fail_with_one_transaction() -> None:
    async with bench() as built:
        missing = [f"/gone/{number}" for number in range(100)]
        check = Check("/", -1)
        *outcomes, made = await together(
            *(built.store.multi([check, Create(path)]) for path in missing),
            built.store.multi([check, Create("/made")]),
        )
        for path, outcome in zip(missing, outcomes, strict=True):
            assert isinstance(outcome, MultiFailed)
            assert (outcome.index, outcome.path) == (1, path)
            assert isinstance(outcome.cause, NoNode)
        assert isinstance(made, tuple)
        assert len(built.under.writes) == 2
        assert await built.is_left_idle()


@in_virtual_time
async def test_a_parent_that_the_same_batch_creates_is_not_missed_behind_it() -> None:
    async with bench() as built:
        before, parent, behind, with_parents = await together(
            built.store.create("/new/before"),
            built.store.create("/new"),
            built.store.create("/new/behind"),
            built.store.create("/other/a", make_parents=True),
        )
        assert isinstance(before, NoNode)
        for outcome in (parent, behind, with_parents):
            assert isinstance(outcome, Versioned)


@in_virtual_time
async def test_a_create_that_makes_its_parents_does_so_behind_one_that_misses_them() -> None:
    async with bench() as built:
        missing, made = await together(
            built.store.create("/new/a"), built.store.create("/new/b", make_parents=True)
        )
        assert isinstance(missing, NoNode)
        assert isinstance(made, Versioned)
        assert await built.is_left_idle()


@in_virtual_time
async def test_a_failed_transaction_names_the_index_among_its_own_operations() -> None:
    async with bench() as built:
        await built.under.create("/epoch")
        await built.under.create("/b")
        guard = Check("/epoch", 0)
        twice = SetData("/b", b"x", 0)
        first, second, third, single = await together(
            built.store.multi([guard, Create("/a")]),
            built.store.multi([guard, Create("/c"), twice, twice]),
            built.store.multi([guard, Create("/d"), Delete("/d", 7)]),
            built.store.create("/e"),
        )
        assert first == (None, await built.under.get("/a"))
        assert isinstance(second, MultiFailed)
        assert (second.index, second.path, type(second.cause)) == (3, "/b", BadVersion)
        assert isinstance(third, MultiFailed)
        assert (third.index, third.path, type(third.cause)) == (2, "/d", BadVersion)
        assert isinstance(single, Versioned)
        assert sorted(await built.under.children("/")) == ["a", "b", "e", "epoch"]


@in_virtual_time
async def test_a_check_that_all_share_is_refused_to_each_at_its_place() -> None:
    async with bench() as built:
        await built.under.create("/epoch")
        await built.under.create("/ring")
        epoch, ring = Check("/epoch", 4), Check("/ring", 0)
        outcomes = await together(
            *(built.store.multi([ring, epoch, Create(f"/{number}")]) for number in range(5))
        )
        assert len(built.under.writes) == 1
        assert [type(outcome) for outcome in outcomes] == [MultiFailed] * 5
        failures = [outcome for outcome in outcomes if isinstance(outcome, MultiFailed)]
        assert {(failure.index, failure.path) for failure in failures} == {(1, "/epoch")}
        # Each has a cause of its own: to raise a shared one adds to the trace of another task.
        assert len({id(failure.cause) for failure in failures}) == 5


@pytest.mark.parametrize(
    "operations",
    [
        [Create("/taken"), Check("/epoch", 7)],
        [Check("/ring", 7), Check("/epoch", 7), Create("/a")],
        [Check("/epoch", 7), Check("/ring", 7), Create("/a")],
        [Check("/epoch", 7), Check("/epoch", -1), Create("/a")],
        [Check("/epoch", -1), Check("/epoch", 7), Create("/a")],
        [Check("/epoch", 7), Check("/epoch", 7), Create("/a")],
        [SetData("/epoch", b""), Check("/epoch", 1), Create("/taken")],
        [Check("/epoch"), Check("/ring")],
        [Check("/epoch"), Check("/gone"), Delete("/taken", 3)],
        [Check("/epoch"), Create("/n-", b"", CreateMode.SEQUENTIAL), Create("/taken")],
    ],
    ids=lambda ops: " ".join(f"{type(op).__name__}{op.path}" for op in ops),
)
@in_virtual_time
async def test_of_several_faults_the_one_is_named_that_the_plain_store_names(
    operations: Sequence[Operation],
) -> None:
    async with bench() as built:
        for path in ("/epoch", "/ring", "/taken"):
            await built.under.create(path)
        alone = await outcome_of(built.under.multi(operations))
        ours, *_ = await together(
            built.store.multi(operations),
            built.store.multi([*operations[:1], Create("/x")]),
            built.store.create("/y"),
        )
        if isinstance(alone, MultiFailed):
            assert isinstance(ours, MultiFailed)
            assert (ours.index, ours.path) == (alone.index, alone.path)
            assert type(ours.cause) is type(alone.cause)
        else:
            assert ours == alone


@in_virtual_time
async def test_writes_that_cannot_share_a_batch_go_in_separate_ones() -> None:
    async with bench() as built:
        await built.under.create("/epoch")
        numbered = CreateMode.SEQUENTIAL
        outcomes = await together(
            built.store.create("/a"),
            built.store.create("/e", b"", CreateMode.EPHEMERAL),
            built.store.multi([Check("/epoch", 0), Create("/b")]),
            built.store.create("/n-", b"1", numbered),
            built.store.multi([Check("/epoch", -1), Create("/c")]),
            built.store.create("/n-", b"2", numbered),
            built.store.create("/d"),
            built.store.create("/f", b"", CreateMode.EPHEMERAL),
            built.store.multi([Check("/epoch", 0), Create("/g")]),
        )
        assert not any(isinstance(outcome, StoreError) for outcome in outcomes)
        paths = [
            "".join(op.path.strip("/") for op in batch if isinstance(op, Create))
            for batch in built.under.writes
        ]
        assert paths == ["ad", "ef", "bg", "n-", "c", "n-"]
        assert [len(batch) for batch in built.under.writes] == [2, 2, 3, 1, 2, 1]


@in_virtual_time
async def test_bulk_transactions_of_many_operations_are_on_their_way_together() -> None:
    async with bench() as built:
        await built.under.create("/epoch")
        built.transit = partial(asyncio.sleep, 0.01)
        with requests_as(RequestClass.BULK):
            outcomes = await together(
                *(
                    built.store.multi(
                        [Check("/epoch", -number), *(Create(f"/{number}-{n}") for n in range(100))]
                    )
                    for number in (0, 1)
                )
            )
        assert not any(isinstance(outcome, StoreError) for outcome in outcomes)
        # Their checks differ, so that they cannot share a batch.
        assert built.under.most_in_flight == 2


@in_virtual_time
async def test_a_batch_looks_at_few_entries_where_none_can_share_it() -> None:
    class Counted(deque[WriteEntry]):
        looks = 0

        def popleft(self) -> WriteEntry:
            Counted.looks += 1
            return super().popleft()

    async with bench(BatchRules(max_operations=10)) as built:
        loop = asyncio.get_running_loop()
        queue = Counted(
            WriteEntry(
                (Check("/epoch", number), Create(f"/{number}")),
                loop.create_future(),
                loop.time(),
                lambda _: None,
                is_transaction=True,
            )
            for number in range(500)
        )
        writes = built.store._lanes[RequestClass.INTERACTIVE].writes
        numbers = [writes._cut(queue, 10)[0].alone for _ in range(500)]
        assert numbers == [(f"/{number}",) for number in range(500)]
        assert Counted.looks <= 500 * 11


@in_virtual_time
async def test_the_making_of_parents_does_not_hold_up_other_writes() -> None:
    async with bench() as built:
        await built.under.create("/leaf", b"", CreateMode.EPHEMERAL)
        deep, plain, below_leaf, missing, deeper = await together(
            built.store.create("/p/q/r", b"1", make_parents=True),
            built.store.create("/plain"),
            built.store.create("/leaf/x/y", make_parents=True),
            built.store.create("/gone/x"),
            built.store.create("/p/q/s", b"2", CreateMode.EPHEMERAL, make_parents=True),
        )
        assert deep == await built.under.get("/p/q/r")
        assert plain == await built.under.get("/plain")
        assert isinstance(below_leaf, InvalidPath)
        assert isinstance(missing, NoNode)
        assert deeper == await built.under.get("/p/q/s")
        assert await built.is_left_idle()


@in_virtual_time
async def test_a_create_that_makes_parents_is_answered_by_its_deadline() -> None:
    async with bench(BatchRules(operation_timeout_s=10.0)) as built:
        began_s = asyncio.get_running_loop().time()
        steps = 0

        async def ever_slower() -> None:
            nonlocal steps
            steps += 1
            await asyncio.sleep(1.4 if steps > 2 else 8.0 if steps == 1 else 0.0)

        built.transit = ever_slower
        (outcome,) = await together(built.store.create("/a/b/c/d", make_parents=True))
        assert isinstance(outcome, Ambiguous)
        assert outcome.session_id == built.under.session_id
        assert asyncio.get_running_loop().time() - began_s <= 10.0 + 0.01


@in_virtual_time
async def test_a_write_that_is_too_large_is_refused_alone_and_a_batch_is_divided() -> None:
    async with bench(BatchRules(max_bytes=8 << 20)) as built:
        large, small, *others = await together(
            built.store.create("/large", bytes(2 << 20)),
            built.store.create("/small"),
            *(built.store.create(f"/{number}", bytes(500_000)) for number in range(5)),
        )
        assert isinstance(large, TooLarge)
        assert isinstance(small, Versioned)
        assert all(isinstance(other, Versioned) for other in others)
        assert await built.is_left_idle()


@in_virtual_time
async def test_a_write_whose_caller_was_cancelled_keeps_its_path_until_it_is_done() -> None:
    async with bench() as built:
        await built.under.create("/a", b"0")

        async def slow() -> None:
            await asyncio.sleep(0.01)

        built.transit = slow
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(built.store.set("/a", b"1", 0), name="first")
            await asyncio.sleep(0.001)
            second = tasks.create_task(built.store.set("/a", b"2"), name="second")
            reading = tasks.create_task(built.store.get("/a"), name="read")
            await asyncio.sleep(0.001)
            first.cancel()
        stat = second.result()
        assert isinstance(stat, Stat)
        assert stat.version == 2
        assert reading.result() == await built.under.get("/a")
        assert await built.is_left_idle()


def test_a_copied_error_keeps_type_arguments_and_cause() -> None:
    cause = BadVersion("why")
    for error in (
        MultiFailed(3, "/a", cause),
        Ambiguous("lost", -5, 77),
        NoNode("/a"),
        TooLarge("a", "b"),
    ):
        error.__cause__ = cause
        copied = _copy(error)
        assert copied is not error
        assert type(copied) is type(error)
        assert (str(copied), copied.args) == (str(error), error.args)
        assert vars(copied) == vars(error)
        assert copied.__cause__ is cause
        assert copied.__traceback__ is None
