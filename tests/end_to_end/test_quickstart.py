import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.zookeeper.ensemble import SharedEnsemble


async def quickstart(*arguments: str) -> tuple[dict[str, Any], str]:
    """Run it as an operator would; its last line of stdout, and what it said besides."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker_ctl", "quickstart", "--headless", "--json", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(100):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    row: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
    return row, err.decode()


def started_by_quickstart(directory: Path) -> list[str]:
    """Processes that still name the directory of a run."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(directory) in line:
            found.append(line)
    return found


@pytest.mark.slow
async def test_the_hot_bundle_is_split_and_load_is_shed_without_double_serving(
    zookeeper: SharedEnsemble, tmp_path: Path
) -> None:
    # Of an earlier run in the same directory; what it holds is not judged with this one's.
    (tmp_path / "broker-1.acts").write_text("acts of an earlier run\n")
    row, _ = await quickstart(
        *("--duration", "30", "--zookeeper", zookeeper.connect_string, "--dir", str(tmp_path)),
        *("--partitions", "4"),
    )

    assert row["brokers"] == 3
    assert row["splits"] >= 1
    assert row["unloads"] >= 1
    assert row["owners_ok"] is True
    assert row["double_served"] == 0
    assert (row["partitions"], row["offline_partitions"]) == (4, 0)
    assert row["imbalance_last"] < row["imbalance_first"]
    assert row["leader"] in {url.split("/")[2] for url in row["metrics_urls"]}
    assert started_by_quickstart(tmp_path) == []


async def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "broker_ctl", "quickstart", "--headless", "--brokers", "2",
        "--dir", str(tmp_path),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while b"broker.conf:" not in await process.stderr.readline():
            assert process.returncode is None
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert len(started) == 3, started  # ZooKeeper and two daemons
    assert process.returncode == 0, err.decode()
    assert not [one for one in started if one.is_running()]
