"""Guarantees of the store for a request, alone or in a batch with others."""

import asyncio
from collections.abc import Awaitable

import pytest

from broker_ctl.errors import BadVersion, MultiFailed, NodeExists, NoNode, StoreError
from broker_ctl.store.interface import Check, Create, CreateMode, Delete, MetadataStore, SetData


async def outcome_of(work: Awaitable[object]) -> object:
    try:
        return await work
    except StoreError as error:
        return error


async def together(*works: Awaitable[object]) -> list[object]:
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(outcome_of(work), name="ask") for work in works]
    return [task.result() for task in asked]


async def test_each_of_several_concurrent_operations_is_answered_as_if_alone(
    store: MetadataStore,
) -> None:
    await store.create("/epoch")
    await store.create("/taken", b"1")
    guard = Check("/epoch", 0)
    outcomes = await together(
        store.create("/a", b"a"),
        store.create("/taken"),
        store.set("/taken", b"2", 0),
        store.set("/taken", b"3", 0),
        store.multi([guard, Create("/b"), SetData("/taken", b"4", 1)]),
        store.multi([guard, Create("/c"), Delete("/none")]),
        store.multi([Check("/epoch", 7), Create("/d")]),
        store.create("/e", b"", CreateMode.EPHEMERAL),
        store.create("/none/x"),
        store.create("/made/x", b"x", make_parents=True),
        store.get("/taken"),
    )
    a, taken, _, old, multi, failed, refused, e, nowhere, made, read = outcomes
    assert a == await store.get("/a")
    assert isinstance(taken, NodeExists)
    assert isinstance(old, BadVersion)
    assert multi == (None, await store.get("/b"), await store.exists("/taken"))
    assert isinstance(failed, MultiFailed)
    assert (failed.index, type(failed.cause)) == (2, NoNode)
    assert isinstance(refused, MultiFailed)
    assert (refused.index, type(refused.cause)) == (0, BadVersion)
    assert e == await store.get("/e")
    assert isinstance(nowhere, NoNode)
    assert made == await store.get("/made/x")
    assert read == await store.get("/taken")
    assert await store.children("/") == sorted(["a", "b", "e", "epoch", "made", "taken"])


async def test_hundreds_of_sequential_nodes_made_at_once_have_names_of_their_own(
    store: MetadataStore,
) -> None:
    await store.create("/q")
    created = await together(
        *(store.create("/q/n-", b"%d" % n, CreateMode.SEQUENTIAL) for n in range(100))
    )
    nodes = await store.get_many([f"/q/{name}" for name in await store.children("/q")])
    assert sorted(map(repr, created)) == sorted(map(repr, nodes))
    assert len(nodes) == 100


@pytest.mark.parametrize("is_guarded", [False, True])
async def test_each_node_that_two_stores_create_at_once_is_created_once(
    store: MetadataStore, other: MetadataStore, is_guarded: bool
) -> None:
    await store.create("/epoch")
    await other.sync("/")

    def create(by: MetadataStore, number: int) -> Awaitable[object]:
        if is_guarded:
            return by.multi([Check("/epoch", 0), Create(f"/{number}", b"%d" % by.session_id)])
        return by.create(f"/{number}", b"%d" % by.session_id)

    outcomes = await together(
        *(create(by, number) for number in range(150) for by in (store, other))
    )
    for number in range(150):
        pair = outcomes[2 * number : 2 * number + 2]
        assert sum(isinstance(outcome, NodeExists | MultiFailed) for outcome in pair) == 1
    assert len(await store.children("/")) >= 151
