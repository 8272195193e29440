"""More ephemeral nodes than the server can list in one reply."""

from dataclasses import replace

import pytest

from broker_ctl.errors import TooLarge
from broker_ctl.store.interface import Create, CreateMode
from broker_ctl.store.zookeeper import connection, wire
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.zookeeper.ensemble import SharedEnsemble

EPHEMERAL = CreateMode.EPHEMERAL
LARGEST = 8192


async def test_ephemerals_are_found_one_by_one_where_the_list_is_too_large(
    open_store: OpenStore,
    rooted: StoreOptions,
    zookeeper: SharedEnsemble,
    observer: ZooKeeperStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_FRAME_SLACK_BYTES", 0)
    options = replace(rooted, max_frame_bytes=LARGEST)
    store = await open_store(zookeeper.connect_string, options)
    own = [f"/namespace/t/n{number % 3}/bundle-{number:020}" for number in range(150)]
    await store.create("/namespace", make_parents=True)
    await store.create("/namespace/t")
    for number in range(3):
        await store.create(f"/namespace/t/n{number}")
    await store.create("/namespaces", b"", EPHEMERAL)
    await observer.create("/namespace/t/n1/another's", b"", EPHEMERAL)
    await observer.create("/namespace/t/n1/persistent")
    for start in range(0, len(own), 30):
        await store.multi([Create(path, b"", EPHEMERAL) for path in own[start : start + 30]])
    session_id = store.session_id
    with pytest.raises(TooLarge):
        await store._requests.read(wire.ephemerals("/namespace", rooted.chroot))
    assert await store.ephemerals("/namespace") == sorted(own)
    assert await store.ephemerals("/nowhere-at-all") == []
    assert store.session_id == session_id
