"""Type=notify: what a real daemon reports to the service manager."""

import asyncio
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker_ctl.daemon.lifecycle import exits
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import TICK_MS
from tests.support.time.waiting import PATIENCE_S
from tests.support.zookeeper.ensemble import SharedEnsemble

WATCHDOG_US = 200_000


class ServiceManager:
    """The receiving end of NOTIFY_SOCKET."""

    def __init__(self, inbox: socket.socket) -> None:
        self._inbox = inbox
        self.heard: list[str] = []

    async def hear(self, word: str, times: int = 1) -> None:
        """Wait until a line has arrived ``times`` times from now on."""
        loop, left = asyncio.get_running_loop(), times
        async with asyncio.timeout(PATIENCE_S):
            while left:
                lines = (await loop.sock_recv(self._inbox, 4096)).decode().splitlines()
                self.heard += lines
                left -= lines.count(word)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceManager]:
    """Daemons that are started during the test get its socket, as from systemd."""
    address = f"broker-ctl-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.settimeout(0)
        inbox.bind(f"\0{address}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{address}")
        monkeypatch.setenv("WATCHDOG_USEC", str(WATCHDOG_US))
        yield ServiceManager(inbox)


@asynccontextmanager
async def running(directory: Path, store_url: str) -> AsyncIterator[DaemonProcess]:
    settings = {"metadataStoreUrl": store_url, "zookeeperTickTimeMillis": str(TICK_MS)}
    daemon = DaemonProcess(directory, 1, settings)
    await daemon.start()
    try:
        yield daemon
    finally:
        if daemon.is_running:
            await daemon.kill()
        daemon.release_ports()


async def test_a_daemon_reports_that_it_serves_that_it_lives_and_that_it_stops(
    manager: ServiceManager, zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    async with running(tmp_path, f"zk:{zookeeper.connect_string}{chroot}") as daemon:
        await manager.hear("READY=1")
        async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=65_536) as http:
            assert (await http.request("GET", f"{daemon.url}/readyz")).status == 200
        assert f"STATUS=serving as {daemon.broker_id}" in manager.heard
        await manager.hear("WATCHDOG=1", times=3)
        assert "STOPPING=1" not in manager.heard
        daemon.signal(signal.SIGTERM)
        await manager.hear("STOPPING=1")
        assert await daemon.wait() == exits.STOPPED


async def test_a_daemon_without_zookeeper_reports_that_it_lives_and_not_that_it_is_ready(
    manager: ServiceManager, tmp_path: Path
) -> None:
    # Nobody listens on a port that is held.
    with reserve_port() as nobody:
        async with running(tmp_path, f"zk:127.0.0.1:{port_of(nobody)}") as daemon:
            await manager.hear("WATCHDOG=1", times=5)
            assert "READY=1" not in manager.heard
            daemon.signal(signal.SIGTERM)
            await manager.hear("STOPPING=1")
            assert await daemon.wait() == exits.STOPPED
