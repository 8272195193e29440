"""A store below a chroot that does not exist yet."""

import asyncio
import secrets

from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.zookeeper.ensemble import SharedEnsemble


async def test_a_chroot_of_several_steps_is_made_with_the_first_node_that_wants_its_parents(
    zookeeper: SharedEnsemble,
) -> None:
    chroot = f"/t-{secrets.token_hex(6)}/clusters/one"
    store = ZooKeeperStore(StoreOptions(zookeeper.connect_string, chroot))
    await store.start()
    try:
        await store.wait_connected()
        async with asyncio.timeout(60):
            created = await store.create("/a/b", b"value", make_parents=True)
            assert created.path == "/a/b"
            assert await store.get("/a/b") is not None
            assert await store.children("/") == ["a"]
            # Containers that are empty again are reaped by the server.
            await store.delete("/a/b")
    finally:
        await store.close()
