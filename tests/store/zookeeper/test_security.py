"""Credentials and TLS against a real server, on both event loops."""

import asyncio
import ssl
from dataclasses import replace

import pytest
import uvloop

from broker_ctl.errors import NoAuth
from broker_ctl.store.interface import CreateMode, SavedSession, SessionEvent
from broker_ctl.store.zookeeper.access import Identity
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.http.certificates import TLS
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy


def server_tls() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    return context


def client_tls() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(TLS / "certificate.pem"))


async def test_nodes_of_a_client_with_credentials_are_closed_to_all_others(
    open_store: OpenStore,
    proxy: Proxy,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
) -> None:
    ours = replace(rooted, identity=Identity(digests=[b"broker:secret"]))
    first = await open_store(proxy.address, ours)
    other = await open_store(zookeeper.connect_string, ours)
    stranger = await open_store(zookeeper.connect_string, rooted)
    wrong = await open_store(
        zookeeper.connect_string, replace(rooted, identity=Identity(digests=[b"broker:guess"]))
    )
    created = await first.create("/a", b"1")
    await other.set("/a", b"2", created.stat.version)
    for outsider in (stranger, wrong):
        with pytest.raises(NoAuth):
            await outsider.get("/a")
        with pytest.raises(NoAuth):
            await outsider.set("/a", b"3")
        with pytest.raises(NoAuth):
            await outsider.create("/a/b")
    # The credentials go over every connection, before anything that waits.
    proxy.cut()
    async with asyncio.TaskGroup() as tasks:
        read = tasks.create_task(first.get("/a"), name="get")
        write = tasks.create_task(first.create("/a/b", b"", CreateMode.EPHEMERAL), name="create")
    node = read.result()
    assert node is not None
    assert node.data == b"2"
    assert write.result().path == "/a/b"
    # The clean-up of the test has no credentials.
    await first.delete("/a/b")
    await first.delete("/a")


async def test_credentials_are_not_printed(open_store: OpenStore) -> None:
    resumed = SavedSession(1, b"another secret")
    options = StoreOptions(
        "localhost:1", identity=Identity(digests=[b"broker:secret"]), resumed=resumed
    )
    assert "secret" not in repr(options)
    store = await open_store("localhost:1", options, connected=False)
    assert "secret" not in repr(store._session._options)


async def test_a_server_is_spoken_to_over_tls(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
) -> None:
    async with Proxy.to(zookeeper.servers[0].client_port, server_tls()) as proxy:
        store = await open_store(proxy.address, replace(rooted, tls=client_tls()))
        await use(store, proxy)
        await store.close()


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_the_loop_of_the_daemon_serves_as_well(
    zookeeper: SharedEnsemble,
    chroot: str,
    is_tls: bool,
) -> None:
    async def scenario() -> None:
        context = server_tls() if is_tls else None
        async with Proxy.to(zookeeper.servers[0].client_port, context) as proxy:
            options = StoreOptions(
                proxy.address,
                chroot,
                session_timeout_s=5.0,
                operation_timeout_s=5.0,
                tls=client_tls() if is_tls else None,
            )
            store = ZooKeeperStore(options)
            await store.start()
            try:
                async with asyncio.timeout(60):
                    await store.wait_connected()
                await use(store, proxy)
            finally:
                await store.close()

    uvloop.run(scenario())


async def use(store: ZooKeeperStore, proxy: Proxy) -> None:
    """Read and write small and large values, before and after a lost connection."""
    events: list[SessionEvent] = []
    store.listen(events.append)
    large = bytes(range(256)) * 3000
    await store.create("/e", b"1", CreateMode.EPHEMERAL)
    await store.create("/large", large)
    for _ in range(2):
        async with asyncio.TaskGroup() as tasks:
            reads = [tasks.create_task(store.get("/large"), name="get") for _ in range(5)]
        for read in reads:
            node = read.result()
            assert node is not None
            assert node.data == large
        proxy.cut()
        await eventually(lambda: events)
        await store.sync("/")
    assert events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED] * 2
    assert await store.ephemerals("/") == ["/e"]


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "by another name"])
async def test_a_server_that_is_not_trusted_is_not_spoken_to(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
    caplog: pytest.LogCaptureFixture,
    is_known: bool,
) -> None:
    async with Proxy.to(zookeeper.servers[0].client_port, server_tls()) as proxy:
        context = client_tls() if is_known else ssl.create_default_context()
        # The same address under another name, which the certificate does not have.
        address = proxy.address.replace("127.0.0.1", "127.1" if is_known else "127.0.0.1")
        options = replace(rooted, tls=context)
        store = await open_store(address, options, connected=False)
        await eventually(lambda: "CERTIFICATE_VERIFY_FAILED" in caplog.text)
        assert not store.is_connected
        assert proxy.opcodes == []
        await store.close()


async def test_a_server_without_tls_is_not_spoken_to(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = replace(rooted, tls=client_tls(), session_timeout_s=2.0)
    store = await open_store(zookeeper.connect_string, options, connected=False)
    await eventually(lambda: "no session from" in caplog.text)
    assert not store.is_connected
