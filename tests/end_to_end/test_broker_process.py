"""A broker process of somebody else's behind the webhook: served, killed, noticed, back."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from broker_ctl.core.names import Namespace, Topic
from broker_ctl.embedded.daemons import DaemonProcess
from broker_ctl.embedded.ports import port_of, reserve_port
from broker_ctl.http import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.clusters import look_up, make_namespace, status
from tests.support.waiting import eventually

TOPIC = Topic("persistent", Namespace("public", "default"), "x")
SECRET = "the-secret-of-broker-and-daemon"


@asynccontextmanager
async def broker_process(
    port: int, secret_file: Path, authority_url: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The reference broker, as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.reference_broker",
        "--port", str(port), "--secret-file", str(secret_file), "--authority-url", authority_url,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_dead_broker_process_is_noticed_and_a_new_one_is_given_everything_again(
    new_cluster: NewCluster, http: HttpClient, tmp_path: Path
) -> None:
    secret_file = tmp_path / "secret"
    secret_file.write_text(SECRET)
    with reserve_port() as held:
        port = port_of(held)
        cluster = new_cluster(
            1,
            dataPlane="webhook",
            dataPlaneUrl=f"http://127.0.0.1:{port}",
            dataPlaneSecretFile=str(secret_file),
            dataPlaneFailureTimeoutMillis="1500",
            dataPlaneRequestTimeoutMillis="1000",
            hostUsageSource="host",
        )
        async with (
            cluster as daemons,
            HttpClient(token=SECRET, timeout_s=5.0, max_body_bytes=1 << 20) as as_daemon,
        ):
            only: DaemonProcess = daemons.all[0]

            async def loaded() -> dict[str, int]:
                reply = await as_daemon.request(
                    "GET", f"http://127.0.0.1:{port}/dataplane/v1/state"
                )
                return dict(reply.json()["bundles"])

            async def is_not_ready() -> bool:
                return (await http.request("GET", f"{only.url}/readyz")).status == 503

            async def owns_nothing() -> bool:
                return not (await status(http, only))["bundles"]

            authority_url = f"{only.url}/dataplane/v1/authority"
            async with broker_process(port, secret_file, authority_url):
                await only.wait_ready(http)
                await make_namespace(http, only, bundles=2)
                await eventually(partial(look_up, http, only, TOPIC), what="an owner")
                assert len(await loaded()) == 1
            # The broker process is dead, the daemon lives.
            await eventually(is_not_ready, what="the silence to be noticed")
            await eventually(owns_nothing, what="the bundles to be given up after their lease")
            async with broker_process(port, secret_file, authority_url):
                await only.wait_ready(http)
                await eventually(partial(look_up, http, only, TOPIC), what="an owner again")
                assert len(await loaded()) == 1
