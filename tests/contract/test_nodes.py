import pytest

from broker_ctl.errors import (
    BadVersion,
    InvalidPath,
    NodeExists,
    NoNode,
    NotEmpty,
    TooLarge,
)
from broker_ctl.store.interface import CreateMode, MetadataStore

MIB = 1 << 20


async def test_a_created_node_is_read_back(store: MetadataStore) -> None:
    created = await store.create("/a", b"\x00\xff")
    assert created == await store.get("/a")
    assert created.path == "/a"
    assert created.data == b"\x00\xff"
    stat = created.stat
    assert stat == await store.exists("/a")
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert (stat.version, stat.cversion, stat.children_count) == (0, 0, 0)
    assert stat.ctime_ms == stat.mtime_ms
    assert stat.data_length == 2
    assert stat.ephemeral_owner == 0
    assert not stat.is_ephemeral


async def test_the_root_is_there(store: MetadataStore) -> None:
    assert await store.exists("/") is not None
    with pytest.raises(NodeExists):
        await store.create("/")


async def test_a_missing_node_reads_as_none(store: MetadataStore) -> None:
    assert await store.get("/a") is None
    assert await store.exists("/a") is None
    assert await store.children("/a") == []
    assert await store.get_many(["/a", "/b/c"]) == [None, None]
    assert await store.get_many([]) == []


async def test_a_node_is_created_once(store: MetadataStore, other: MetadataStore) -> None:
    await store.create("/a", b"1")
    with pytest.raises(NodeExists):
        await other.create("/a", b"2")
    node = await other.get("/a")
    assert node is not None
    assert node.data == b"1"


async def test_a_missing_parent_is_not_made_unasked(store: MetadataStore) -> None:
    with pytest.raises(NoNode):
        await store.create("/a/b/c")
    assert await store.exists("/a") is None


async def test_missing_parents_are_made_as_containers(store: MetadataStore) -> None:
    await store.create("/a", b"kept")
    made = await store.create("/a/b/c/d", b"x", CreateMode.EPHEMERAL, make_parents=True)
    assert made.path == "/a/b/c/d"
    a, b, c = await store.get_many(["/a", "/a/b", "/a/b/c"])
    assert a is not None
    assert b is not None
    assert c is not None
    assert a.data == b"kept"
    assert a.stat.ephemeral_owner == 0
    assert not b.stat.is_ephemeral
    assert not c.stat.is_ephemeral
    with pytest.raises(NodeExists):
        await store.create("/a/b/c/d", make_parents=True)


async def test_an_ephemeral_node_belongs_to_its_session(store: MetadataStore) -> None:
    created = await store.create("/a", b"", CreateMode.EPHEMERAL)
    assert created.stat.ephemeral_owner == store.session_id != 0
    assert created.stat.is_ephemeral


async def test_an_ephemeral_node_has_no_children(store: MetadataStore) -> None:
    await store.create("/a", b"", CreateMode.EPHEMERAL)
    with pytest.raises(InvalidPath):
        await store.create("/a/b")
    with pytest.raises(InvalidPath):
        await store.create("/a/b/c", make_parents=True)


async def test_a_container_is_not_an_ephemeral_node(store: MetadataStore) -> None:
    created = await store.create("/a", b"x", CreateMode.CONTAINER)
    assert not created.stat.is_ephemeral
    await store.create("/a/b")


async def test_a_node_with_a_time_to_live_is_not_an_ephemeral_node(store: MetadataStore) -> None:
    created = await store.create("/a", b"x", CreateMode.TTL, ttl_ms=60_000)
    assert not created.stat.is_ephemeral
    with pytest.raises(InvalidPath):
        await store.create("/b", b"x", CreateMode.TTL, ttl_ms=0)


async def test_sequential_names_count_what_was_ever_created(store: MetadataStore) -> None:
    await store.create("/a")
    first = await store.create("/a/n-", b"", CreateMode.SEQUENTIAL)
    await store.create("/a/other")
    third = await store.create("/a/n-", b"x", CreateMode.EPHEMERAL_SEQUENTIAL)
    await store.delete(third.path)
    await store.delete("/a/other")
    fourth = await store.create("/a/", b"", CreateMode.SEQUENTIAL)
    assert [node.path for node in (first, third, fourth)] == [
        "/a/n-0000000000",
        "/a/n-0000000002",
        "/a/0000000003",
    ]
    assert third.stat.ephemeral_owner == store.session_id
    assert not first.stat.is_ephemeral
    assert await store.get(fourth.path) == fourth


async def test_children_are_sorted_names(store: MetadataStore) -> None:
    for path in ("/a", "/a/c", "/a/b", "/a/b/x", "/ab"):
        await store.create(path)
    assert await store.children("/a") == ["b", "c"]
    assert await store.children("/") == ["a", "ab"]


async def test_many_nodes_are_read_in_the_order_of_the_paths(store: MetadataStore) -> None:
    paths = [f"/n{number}" for number in range(300)]
    for path in paths[::2]:
        await store.create(path, path.encode())
    found = await store.get_many(paths)
    assert [node and node.data for node in found] == [
        path.encode() if index % 2 == 0 else None for index, path in enumerate(paths)
    ]
    assert all(node is None or node.path == path for node, path in zip(found, paths, strict=True))


async def test_a_set_raises_the_version(store: MetadataStore) -> None:
    created = await store.create("/a", b"1")
    stat = await store.set("/a", b"123", 0)
    assert (stat.version, stat.data_length) == (1, 3)
    assert stat.czxid == created.stat.czxid < stat.mzxid
    node = await store.get("/a")
    assert node is not None
    assert node.stat == stat
    assert node.data == b"123"
    assert (await store.set("/a", b"")).version == 2


async def test_a_set_of_another_version_is_refused(store: MetadataStore) -> None:
    await store.create("/a", b"1")
    for version in (1, 5, -2):
        with pytest.raises(BadVersion):
            await store.set("/a", b"2", version)
    with pytest.raises(NoNode):
        await store.set("/b", b"2")
    node = await store.get("/a")
    assert node is not None
    assert node.data == b"1"


async def test_a_delete_minds_version_and_children(store: MetadataStore) -> None:
    await store.create("/a")
    await store.create("/a/b")
    with pytest.raises(BadVersion):
        await store.delete("/a/b", 1)
    with pytest.raises(NotEmpty):
        await store.delete("/a")
    await store.delete("/a/b", 0)
    await store.delete("/a")
    with pytest.raises(NoNode):
        await store.delete("/a")


async def test_a_node_created_again_has_the_same_version_and_another_czxid(
    store: MetadataStore,
) -> None:
    first = await store.create("/a", b"1")
    await store.delete("/a", 0)
    second = await store.create("/a", b"1")
    assert first.stat.version == second.stat.version == 0
    assert first.stat.czxid < second.stat.czxid


async def test_a_parent_counts_the_changes_of_its_children(store: MetadataStore) -> None:
    await store.create("/a")
    await store.create("/a/b")
    await store.create("/a/c")
    await store.set("/a/c", b"1")
    await store.delete("/a/b")
    after_delete = store.last_zxid
    stat = await store.exists("/a")
    assert stat is not None
    assert (stat.version, stat.cversion, stat.children_count) == (0, 3, 1)
    assert stat.pzxid == after_delete > stat.mzxid


async def test_any_session_may_delete_an_ephemeral_node(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    await store.create("/a", b"", CreateMode.EPHEMERAL)
    await other.delete("/a")
    assert await store.exists("/a") is None
    assert await store.ephemerals("/") == []


async def test_own_ephemerals_are_listed_by_path(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    for path in ("/a", "/ab", "/x"):
        await store.create(path)
    await store.create("/a/2", b"", CreateMode.EPHEMERAL)
    await store.create("/a/1", b"", CreateMode.EPHEMERAL)
    await store.create("/a/persistent")
    await store.create("/ab/3", b"", CreateMode.EPHEMERAL)
    await other.create("/a/theirs", b"", CreateMode.EPHEMERAL)
    assert await store.ephemerals("/a") == ["/a/1", "/a/2"]
    assert await store.ephemerals("/") == ["/a/1", "/a/2", "/ab/3"]
    assert await store.ephemerals("/x") == []
    assert await other.ephemerals("/a") == ["/a/theirs"]


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\x01"])
async def test_a_malformed_path_is_refused(store: MetadataStore, path: str) -> None:
    with pytest.raises(InvalidPath):
        await store.get(path)
    with pytest.raises(InvalidPath):
        await store.exists(path)
    with pytest.raises(InvalidPath):
        await store.children(path)
    with pytest.raises(InvalidPath):
        await store.get_many(["/", path])
    with pytest.raises(InvalidPath):
        await store.create(path)
    with pytest.raises(InvalidPath):
        await store.set(path, b"")
    with pytest.raises(InvalidPath):
        await store.delete(path)
    with pytest.raises(InvalidPath):
        await store.watch(path, lambda _: None)


@pytest.mark.parametrize("name", ["é", "…", "a b", "%2F", "a:b@c", "...", "日本"])
async def test_a_name_may_hold_most_characters(store: MetadataStore, name: str) -> None:
    created = await store.create(f"/{name}", b"x")
    assert created.path == f"/{name}"
    assert name in await store.children("/")
    assert await store.get(f"/{name}") == created


async def test_a_write_that_is_too_large_is_refused_and_the_session_lives(
    store: MetadataStore,
) -> None:
    session_id = store.session_id
    await store.create("/a")
    with pytest.raises(TooLarge):
        await store.create("/b", bytes(2 * MIB))
    with pytest.raises(TooLarge):
        await store.set("/a", bytes(2 * MIB))
    assert (await store.set("/a", bytes(MIB // 2))).data_length == MIB // 2
    assert store.session_id == session_id


async def test_a_write_of_another_session_is_seen_after_a_sync(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    await other.create("/a", b"1")
    await store.sync("/a")
    node = await store.get("/a")
    assert node is not None
    assert node.data == b"1"
    await store.sync("/missing")
