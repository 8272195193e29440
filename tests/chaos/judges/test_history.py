"""The reader of transaction logs, on logs of a real server; kazoo says what happened."""

from pathlib import Path

from kazoo.client import KazooClient

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.store.interface import Check, Create, CreateMode, Delete
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.chaos.judges.history import Archive, Changed, Closed, Created, Deleted


def ask_kazoo(hosts: str) -> tuple[int, int]:
    """Session id, and the czxid of what it created."""
    client = KazooClient(hosts)
    client.start()
    try:
        client.create("/a", b"1")
        client.set("/a", b"2")
        client.create("/a/e", b"x", ephemeral=True)
        client.delete("/a/e")
        client.create("/a/f", b"y", ephemeral=True)
        stat = client.exists("/a/f")
        assert stat is not None
        return stat.ephemeralOwner, stat.czxid
    finally:
        client.stop()
        client.close()


async def test_everything_that_was_done_is_read_in_order_also_after_a_purge(tmp_path: Path) -> None:
    async with Ensemble.of(tmp_path / "zookeeper", heap_mb=128) as ensemble:
        (server,) = ensemble.servers
        archive = Archive(tmp_path / "logs", {1: tmp_path / "zookeeper" / "server-1" / "data"})
        session, czxid = ask_kazoo(ensemble.connect_string)
        for _ in range(4):
            archive.keep()
            await server.restart()
            store = ZooKeeperStore(StoreOptions(ensemble.connect_string))
            await store.start()
            await store.wait_connected()
            await store.multi([Check("/a", -1), Create("/a/m", b"m", CreateMode.EPHEMERAL)])
            await store.multi([Delete("/a/m"), Create("/a/m", b"n")])
            await store.delete("/a/m")
            await store.close()
        history = archive.history()

    assert [one.zxid for one in history] == sorted({one.zxid for one in history})
    ours = [one for one in history if one.session == session]
    assert [one.changes for one in ours if one.changes] == [
        (Created("/a", b"1", is_ephemeral=False),),
        (Changed("/a", b"2", 1),),
        (Created("/a/e", b"x", is_ephemeral=True),),
        (Deleted("/a/e"),),
        (Created("/a/f", b"y", is_ephemeral=True),),
        (Closed(),),
    ]
    assert ours[-2].zxid == czxid
    multis = [one.changes for one in history if len(one.changes) == 2]
    assert multis == [(Deleted("/a/m"), Created("/a/m", b"n", is_ephemeral=False))] * 4
