import pytest

from broker_ctl.errors import (
    BadVersion,
    InvalidPath,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    StoreError,
    TooLarge,
)
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    Operation,
    SetData,
    Stat,
    Versioned,
)


async def test_results_stand_in_the_order_of_the_operations(store: MetadataStore) -> None:
    await store.create("/a", b"1")
    await store.create("/old")
    checked, created, changed, deleted = await store.multi(
        [
            Check("/a", 0),
            Create("/b", b"2", CreateMode.EPHEMERAL),
            SetData("/a", b"3", 0),
            Delete("/old"),
        ],
    )
    assert checked is None
    assert deleted is None
    assert isinstance(created, Versioned)
    assert isinstance(changed, Stat)
    assert created == await store.get("/b")
    assert changed == await store.exists("/a")
    assert created.stat.ephemeral_owner == store.session_id
    assert created.stat.czxid == changed.mzxid
    assert await store.exists("/old") is None


async def test_an_operation_sees_the_effects_of_the_earlier_ones(store: MetadataStore) -> None:
    results = await store.multi(
        [
            Create("/a", b"1"),
            Create("/a/n-", b"", CreateMode.SEQUENTIAL),
            Create("/a/n-", b"", CreateMode.SEQUENTIAL),
            SetData("/a", b"2", 0),
            Check("/a", 1),
            Create("/gone"),
            Delete("/gone", 0),
        ],
    )
    created = [result.path for result in results if isinstance(result, Versioned)]
    assert created == ["/a", "/a/n-0000000000", "/a/n-0000000001", "/gone"]
    assert await store.children("/a") == ["n-0000000000", "n-0000000001"]
    assert await store.exists("/gone") is None
    node = await store.get("/a")
    assert node is not None
    assert (node.data, node.stat.version, node.stat.czxid) == (b"2", 1, node.stat.mzxid)


async def test_a_node_can_be_replaced_at_one_zxid(store: MetadataStore) -> None:
    old = await store.create("/a", b"1")
    _, new = await store.multi([Delete("/a", 0), Create("/a", b"2", CreateMode.EPHEMERAL)])
    assert isinstance(new, Versioned)
    assert new.stat.czxid > old.stat.czxid
    assert await store.get("/a") == new
    assert await store.ephemerals("/") == ["/a"]


@pytest.mark.parametrize(
    ("culprit", "cause"),
    [
        (Create("/a"), NodeExists),
        (Create("/missing/x"), NoNode),
        (Create("/a/e/x"), InvalidPath),
        (SetData("/a", b"", 7), BadVersion),
        (SetData("/missing", b""), NoNode),
        (Delete("/a", 7), BadVersion),
        (Delete("/missing"), NoNode),
        (Delete("/a"), NotEmpty),
        (Check("/a", 7), BadVersion),
        (Check("/missing"), NoNode),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
async def test_one_failure_rolls_everything_back_and_is_named(
    store: MetadataStore,
    culprit: Operation,
    cause: type[StoreError],
) -> None:
    await store.create("/a", b"1")
    await store.create("/a/e", b"", CreateMode.EPHEMERAL)
    before = await store.get_many(["/", "/a", "/a/e"])
    with pytest.raises(MultiFailed) as failure:
        await store.multi(
            [
                Create("/b"),
                Create("/a/n", b"", CreateMode.EPHEMERAL_SEQUENTIAL),
                SetData("/a", b"2"),
                culprit,
                Create("/c"),
                Check("/missing"),
            ],
        )
    assert failure.value.index == 3
    assert failure.value.path == culprit.path
    assert type(failure.value.cause) is cause
    assert await store.get_many(["/", "/a", "/a/e"]) == before
    assert await store.get_many(["/b", "/c"]) == [None, None]
    assert await store.children("/a") == ["e"]
    assert await store.ephemerals("/") == ["/a/e"]


async def test_an_empty_transaction_succeeds(store: MetadataStore) -> None:
    assert await store.multi([]) == ()


async def test_a_transaction_of_checks_alone_is_possible(store: MetadataStore) -> None:
    await store.create("/a")
    assert await store.multi([Check("/a"), Check("/a", 0)]) == (None, None)


async def test_one_of_two_transactions_on_the_same_version_wins(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    await store.create("/epoch")
    outcomes = []
    for writer in (store, other):
        try:
            await writer.multi(
                [SetData("/epoch", b"", 0), Create("/leader", b"", CreateMode.EPHEMERAL)],
            )
            outcomes.append("won")
        except MultiFailed as failure:
            outcomes.append(type(failure.cause).__name__)
    assert outcomes == ["won", "BadVersion"]


async def test_a_malformed_path_in_a_transaction_is_refused(store: MetadataStore) -> None:
    with pytest.raises(InvalidPath):
        await store.multi([Create("/a"), Create("/b/")])
    assert await store.exists("/a") is None


async def test_a_transaction_that_is_too_large_is_refused(store: MetadataStore) -> None:
    with pytest.raises(TooLarge):
        await store.multi([Create(f"/n{number}", bytes(300_000)) for number in range(4)])
    assert await store.children("/") == []
