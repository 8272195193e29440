"""How a real daemon ends when ZooKeeper is of no use to it any more."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.errors import AuthFailed, ClientFailed, HistoryBehind, RetriesUsedUp, StoreError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import TICK_MS
from tests.support.daemon.running_daemons import look_up, make_namespace
from tests.support.daemon.webhook_process import broker_process, webhook
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.fake_zookeeper import FakeZooKeeper, before_3_6
from tests.support.zookeeper.keeper_like import KeeperLike
from tests.support.zookeeper.restorable import Servers, restorable

DEADLINE_S = 60.0
TOPIC = Topic("persistent", Namespace("public", "default"), "x")
TICK = {"zookeeperTickTimeMillis": str(TICK_MS), "metadataStoreSessionTimeoutMillis": "4000"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HistoryBehind(""), exits.HISTORY_BEHIND),
        (RetriesUsedUp(""), exits.RETRIES_USED_UP),
        (ClientFailed(""), exits.FAILED),
        (AuthFailed(""), exits.NOT_ADMITTED),
    ],
)
def test_each_end_of_the_session_has_its_code(error: StoreError, code: int) -> None:
    assert exits.of(error) == code


async def test_a_daemon_whose_zookeeper_was_restored_from_a_copy_ends_with_a_code_and_a_log_line(
    tmp_path: Path,
) -> None:
    async with restorable(tmp_path, 1) as servers:
        url = f"zk:{servers.ensemble.connect_string}"
        daemon = DaemonProcess(tmp_path, 1, {"metadataStoreUrl": url, **TICK})
        await daemon.start()
        try:
            await served_by(servers, daemon)
            await servers.stop()
            servers.restore()
            await servers.start()
            assert await ended(daemon) == exits.HISTORY_BEHIND
            assert "restored from a copy" in daemon.files.log.read_text(encoding="utf-8")
        finally:
            await put_away(daemon)


@pytest.mark.slow
async def test_a_daemon_on_a_restored_zookeeper_exits_for_a_newer_token_of_its_broker_process(
    tmp_path: Path,
) -> None:
    """The daemon remembers nothing, and the servers accept it: only its broker process knows."""
    async with restorable(tmp_path, 1) as servers:
        url = f"zk:{servers.ensemble.connect_string}"
        secret_file = tmp_path / "secret"
        with reserve_port() as held:
            port = port_of(held)
            settings = {"metadataStoreUrl": url, **TICK, **webhook(port, secret_file)}
            daemon = DaemonProcess(tmp_path, 1, settings)
            authority_url = f"{daemon.url}/dataplane/v1/authority"
            async with broker_process(port, secret_file, authority_url):
                await daemon.start()
                try:
                    await served_by(servers, daemon)
                    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=65_536) as http:
                        await eventually(partial(look_up, http, daemon, TOPIC), what="an owner")
                    await servers.stop()
                    servers.restore()
                    await servers.start()
                    assert await ended(daemon) == exits.HISTORY_BEHIND
                    for _ in range(2):
                        await daemon.start()
                        assert await ended(daemon) == exits.HISTORY_BEHIND
                    log = daemon.files.log.read_text(encoding="utf-8")
                    assert log.count("is loaded under token") == 2
                finally:
                    await put_away(daemon)


async def served_by(servers: Servers, daemon: DaemonProcess) -> None:
    """Copy the data, and wait until the daemon has written something newer than the copy."""
    await servers.stop()
    servers.copy()
    await servers.start()
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=65_536) as http:
        await daemon.wait_ready(http)
        await make_namespace(http, daemon)


async def test_a_daemon_that_has_used_up_its_attempts_to_connect_ends_with_a_code_of_its_own(
    tmp_path: Path,
) -> None:
    # Nobody listens on a port that is held.
    with reserve_port() as nobody:
        url = {"metadataStoreUrl": f"zk:127.0.0.1:{port_of(nobody)}"}
        limit = {"zookeeperSessionReconnectMaxRetries": "1"}
        daemon = DaemonProcess(tmp_path, 1, {**url, **limit, **TICK})
        await daemon.start()
        try:
            assert await ended(daemon) == exits.RETRIES_USED_UP
        finally:
            await put_away(daemon)


async def test_a_zookeeper_that_is_too_old_ends_the_daemon_with_a_code_of_its_own_and_is_logged(
    tmp_path: Path,
) -> None:
    async with FakeZooKeeper.playing(before_3_6) as fake:
        url = {"metadataStoreUrl": f"zk:{fake.address}"}
        daemon = DaemonProcess(tmp_path, 1, {**url, **TICK})
        await daemon.start()
        try:
            assert await ended(daemon) == exits.TOO_OLD
            log = daemon.files.log.read_text(encoding="utf-8")
            assert f"{fake.address}: this ZooKeeper knows no persistent recursive watch" in log
            assert "Traceback" not in log
        finally:
            await put_away(daemon)


@pytest.mark.parametrize("key", ["metadataStoreUrl", "configurationMetadataStoreUrl"])
async def test_a_server_whose_watches_do_not_name_the_node_ends_the_daemon_with_the_same_code(
    key: str, zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    server = zookeeper.servers[0]
    async with KeeperLike.before(server.client_port) as keeper:
        url = {
            "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
            key: f"zk:{keeper.address}{chroot}",
        }
        daemon = DaemonProcess(tmp_path, 1, {**url, **TICK})
        await daemon.start()
        try:
            assert await ended(daemon) == exits.TOO_OLD
            log = daemon.files.log.read_text(encoding="utf-8")
            assert f"{keeper.address}: below a recursive watch of " in log
            assert "copies of nodes would be silently wrong" in log
            assert "Traceback" not in log
        finally:
            await put_away(daemon)


@pytest.mark.parametrize("has_minimum", [False, True], ids=["by default", "minimum given"])
async def test_a_tick_shorter_than_the_servers_tick_is_refused_unless_their_minimum_is_given(
    has_minimum: bool, zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    settings = {
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "zookeeperTickTimeMillis": str(TICK_MS - 100),
        **({"zookeeperMinSessionTimeoutMillis": str(2 * TICK_MS)} if has_minimum else {}),
    }
    daemon = DaemonProcess(tmp_path, 1, settings)
    await daemon.start()
    try:
        if has_minimum:
            async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=65_536) as http:
                await daemon.wait_ready(http)
        else:
            assert await ended(daemon) == exits.FAILED
            log = daemon.files.log.read_text(encoding="utf-8")
            assert "grants at least 1000 ms to a session, but 800 ms are expected" in log
            assert "zookeeperMinSessionTimeoutMillis" in log
    finally:
        await put_away(daemon)


async def ended(daemon: DaemonProcess) -> int:
    async with asyncio.timeout(DEADLINE_S):
        return await daemon.wait()


async def put_away(daemon: DaemonProcess) -> None:
    if daemon.is_running:
        await daemon.kill()
    daemon.release_ports()
