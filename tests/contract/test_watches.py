import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker_ctl.errors import MultiFailed
from broker_ctl.store.interface import (
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    SessionEvent,
    SetData,
)
from tests.contract.backends import Heard
from tests.support.time.waiting import eventually

Expire = Callable[[MetadataStore], Awaitable[None]]
Cut = Callable[[MetadataStore], None]


async def test_a_watch_is_notified_of_every_change_at_and_below_its_root(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    heard = Heard()
    await store.watch("/a", heard.notifications.append)
    await other.create("/a")
    await other.create("/a/b", b"1")
    await other.set("/a/b", b"1")
    await other.create("/a/b/c")
    await other.delete("/a/b/c")
    await other.delete("/a/b")
    await other.delete("/a")
    await store.sync("/")
    assert heard.paths() == [
        ("CREATED", "/a"),
        ("CREATED", "/a/b"),
        ("MODIFIED", "/a/b"),
        ("CREATED", "/a/b/c"),
        ("DELETED", "/a/b/c"),
        ("DELETED", "/a/b"),
        ("DELETED", "/a"),
    ]


async def test_a_watch_is_not_notified_of_other_subtrees(store: MetadataStore) -> None:
    heard = Heard()
    await store.create("/a")
    await store.watch("/a", heard.notifications.append)
    await store.create("/ab")
    await store.create("/b")
    await store.create("/a/x")
    await store.set("/b", b"")
    await store.get("/b")
    assert heard.paths() == [("CREATED", "/a/x")]


async def test_a_watch_on_the_root_is_notified_of_every_change(store: MetadataStore) -> None:
    heard = Heard()
    await store.watch("/", heard.notifications.append)
    await store.create("/a")
    await store.create("/a/b")
    assert heard.paths() == [("CREATED", "/a"), ("CREATED", "/a/b")]


async def test_a_removed_watch_is_not_notified_and_the_others_still_are(
    store: MetadataStore,
) -> None:
    first, second, above = Heard(), Heard(), Heard()
    stop = await store.watch("/a", first.notifications.append)
    await store.watch("/a", second.notifications.append)
    await store.watch("/", above.notifications.append)
    await store.create("/a")
    stop()
    await store.create("/a/b")
    assert first.paths() == [("CREATED", "/a")]
    assert second.paths() == above.paths() == [("CREATED", "/a"), ("CREATED", "/a/b")]


async def test_a_watch_that_was_ended_can_be_set_again(store: MetadataStore) -> None:
    heard = Heard()
    stop = await store.watch("/a", heard.notifications.append)
    stop()
    await store.create("/a")
    await store.watch("/a", heard.notifications.append)
    await store.set("/a", b"")
    assert heard.paths() == [("MODIFIED", "/a")]


async def test_the_event_comes_before_the_reply_of_a_read_that_shows_the_change(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    await other.create("/a")
    heard = Heard()
    await store.watch("/a", heard.notifications.append)
    rounds = 100

    async def write() -> None:
        for number in range(rounds):
            await other.set("/a", b"", number)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write(), name="writer")
        version = 0
        while version < rounds:
            stat = await store.exists("/a")
            assert stat is not None
            assert len(heard.notifications) >= stat.version >= version
            version = stat.version
    assert heard.paths() == [("MODIFIED", "/a")] * rounds


async def test_a_writer_is_notified_of_its_own_write_before_the_reply(store: MetadataStore) -> None:
    heard = Heard()
    await store.watch("/", heard.notifications.append)
    created = await store.create("/a")
    assert heard.paths() == [("CREATED", "/a")]
    assert heard.notifications[0].zxid in {created.stat.czxid, -1}


async def test_a_watch_is_notified_of_a_transaction_in_its_order_and_never_of_a_failed_one(
    store: MetadataStore,
) -> None:
    await store.create("/a")
    heard = Heard()
    await store.watch("/", heard.notifications.append)
    await store.multi([Create("/b"), SetData("/a", b""), Create("/b/c"), Delete("/a")])
    with pytest.raises(MultiFailed):
        await store.multi([Create("/x"), Create("/b")])
    assert heard.paths() == [
        ("CREATED", "/b"),
        ("MODIFIED", "/a"),
        ("CREATED", "/b/c"),
        ("DELETED", "/a"),
    ]
    zxids = {notification.zxid for notification in heard.notifications}
    assert len(zxids) == 1


async def test_a_watch_is_notified_of_each_node_that_ends_with_a_session(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    heard = Heard()
    await store.create("/a")
    for name in ("x", "y"):
        await other.create(f"/a/{name}", b"", CreateMode.EPHEMERAL)
    await store.watch("/a", heard.notifications.append)
    await other.close()
    await store.sync("/")
    assert sorted(heard.paths()) == [("DELETED", "/a/x"), ("DELETED", "/a/y")]


async def test_a_watch_is_restored_after_a_disconnect_and_replays_nothing(
    store: MetadataStore,
    other: MetadataStore,
    cut: Cut,
) -> None:
    heard, before = Heard(), Heard()
    store.listen(heard.events.append)
    await store.watch("/a", heard.notifications.append)
    await store.watch("/b", before.notifications.append)
    cut(store)
    await eventually(lambda: SessionEvent.RECONNECTED in heard.events)
    await other.create("/a")
    await store.sync("/")
    assert heard.paths() == [("CREATED", "/a")]
    assert before.paths() == []


async def test_a_watch_is_restored_in_the_next_session(
    store: MetadataStore,
    other: MetadataStore,
    expire: Expire,
) -> None:
    heard = Heard()
    store.listen(heard.events.append)
    await store.watch("/a", heard.notifications.append)
    await expire(store)
    await eventually(lambda: SessionEvent.CONNECTED in heard.events)
    await other.create("/a")
    await store.sync("/")
    assert heard.paths() == [("CREATED", "/a")]


async def test_a_watch_that_is_set_during_a_disconnect_is_notified_after_it(
    store: MetadataStore,
    other: MetadataStore,
    cut: Cut,
) -> None:
    heard = Heard()
    cut(store)
    await store.watch("/a", heard.notifications.append)
    await other.create("/a")
    await store.sync("/")
    await eventually(lambda: heard.paths() == [("CREATED", "/a")])
