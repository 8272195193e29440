"""The elected daemon is killed; how long until another one leads?"""

import asyncio
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from tests.benchmarks.lines.progress import report_progress
from tests.support.daemon.running_daemons import leader_of
from tests.support.time.waiting import eventually


async def measure_failover(
    directory: Path,
    settings: Mapping[str, str],
    http: HttpClient,
    times: int,
) -> dict[str, float]:
    """Median and longest, in seconds."""
    took_s: list[float] = []
    async with Daemons(directory, 3, settings) as daemons:
        await daemons.wait_ready(http)

        async def led() -> tuple[DaemonProcess, int] | None:
            return await leader_of(http, [one for one in daemons.all if one.is_running])

        for _ in range(times):
            leader, epoch = await eventually(led, deadline_s=60.0, what="a leader")
            await asyncio.sleep(1.0)
            killed_s = time.monotonic()
            await leader.kill()
            _, after = await eventually(led, deadline_s=60.0, what="another leader")
            took_s.append(time.monotonic() - killed_s)
            assert after > epoch
            await leader.start()
            await leader.wait_ready(http)
    report_progress(f"another daemon led after {', '.join(f'{one:.2f}' for one in took_s)} s")
    return {"p50": round(statistics.median(took_s), 2), "max": round(max(took_s), 2)}
