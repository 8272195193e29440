"""Requests that meet a daemon on its way down: come again, never a fault of the daemon."""

import asyncio
import signal
from pathlib import Path

from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.tasks import TaskScope
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble

# A lookup, and reads that nothing of this broker's answers.
PATHS = (
    "/lookup/v2/topic/persistent/public/default/topic-1",
    "/admin/v2/tenants",
    "/admin/v2/namespaces/public",
    "/admin/v2/brokers/configuration",
)
ASKERS = 4
AVAILABLE_OR_AGAIN = {200, 204, 307, 404, 503}


async def test_a_request_while_a_daemon_stops_is_served_or_answered_to_come_again(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> None:
    url = f"zk:{zookeeper.connect_string}{chroot}"
    settings = {"metadataStoreUrl": url, "zookeeperTickTimeMillis": str(TICK_MS)}
    daemon = DaemonProcess(tmp_path, 1, settings)
    answers: dict[int, bytes] = {}

    async def ask(http: HttpClient, path: str) -> None:
        while daemon.is_running:
            try:
                reply = await http.request("GET", f"{daemon.url}{path}")
            except HttpError:
                continue
            answers.setdefault(reply.status, reply.body)

    await daemon.start()
    try:
        async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
            await daemon.wait_ready(http, PATIENCE_S)
            async with TaskScope("asking") as scope:
                for number in range(ASKERS * len(PATHS)):
                    scope.start(ask(http, PATHS[number % len(PATHS)]), f"asker {number}")
                await eventually(lambda: 200 in answers)
                daemon.signal(signal.SIGTERM)
                async with asyncio.timeout(PATIENCE_S):
                    assert await daemon.wait() == 0
    finally:
        if daemon.is_running:
            await daemon.kill()
        daemon.release_ports()
    assert set(answers) <= AVAILABLE_OR_AGAIN, answers
