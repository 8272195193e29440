"""Measure an idle daemon: seconds until it is ready, and resident memory.

Each run starts `broker-ctl run` on an embedded ZooKeeper that already serves, requests /readyz
until the answer is 200, leaves the daemon idle for a while, and reads its resident set size. A
first run, which is discarded, compiles the bytecode into a temporary directory, as an installation
does. It prints medians:

rss_mb    resident set size, in 10**6 bytes
ready_s   from the start of the process to the first 200 from /readyz
"""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from broker_ctl.codec import encode, encode_pretty
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import TICK_MS

POLL_S: Final = 0.005
READY_LIMIT_S: Final = 300.0
STOP_LIMIT_S: Final = 60.0
BYTES_PER_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class Footprint:
    """``rss_mb`` in 10**6 bytes, ``ready_s`` from the spawn to the first 200 of /readyz."""

    rss_mb: float
    ready_s: float


@asynccontextmanager
async def daemon(
    configuration: Path, environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """One `broker-ctl run`, stopped on leaving; its log is beside the configuration."""
    with _log_of(configuration).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "broker_ctl", "run", "-c", str(configuration)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(STOP_LIMIT_S):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()


def _log_of(configuration: Path) -> Path:
    return configuration.with_suffix(".log")


async def wait_ready(http: HttpClient, url: str, process: asyncio.subprocess.Process) -> None:
    """Ask until the answer is 200.

    Raises:
        RuntimeError: the daemon ended.
    """
    async with asyncio.timeout(READY_LIMIT_S):
        while process.returncode is None:
            try:
                if (await http.request("GET", f"{url}/readyz")).status == 200:
                    return
            except HttpError:
                # The daemon does not listen yet.
                pass
            await asyncio.sleep(POLL_S)
    raise RuntimeError(f"the daemon ended with {process.returncode}")


async def measure(directory: Path, number: int, hosts: str, idle_s: float) -> Footprint:
    """One run, below a chroot of its own."""
    with reserve_port() as web, reserve_port() as native:
        settings = {
            # On one ensemble, each chroot is a cluster with its own name.
            "clusterName": f"run-{number}",
            "metadataStoreUrl": f"zk:{hosts}/run-{number}",
            "zookeeperTickTimeMillis": TICK_MS,
            "webServicePort": port_of(web),
            "brokerServicePort": port_of(native),
        }
        configuration = directory / f"run-{number}.conf"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        async with HttpClient(timeout_s=2.0, max_body_bytes=65_536) as http:
            started_s = time.perf_counter()
            async with daemon(configuration, _environment(directory)) as process:
                try:
                    await wait_ready(http, f"http://127.0.0.1:{port_of(web)}", process)
                except RuntimeError:
                    sys.stderr.write(_log_of(configuration).read_text(encoding="utf-8"))
                    raise
                ready_s = time.perf_counter() - started_s
                await asyncio.sleep(idle_s)
                rss_bytes = psutil.Process(process.pid).memory_info().rss
    return Footprint(rss_bytes / BYTES_PER_MB, ready_s)


def _environment(directory: Path) -> Mapping[str, str]:
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(directory / "bytecode")}


async def run(runs: int, idle_s: float) -> Footprint:
    """The median of several runs, separately for each figure."""
    with tempfile.TemporaryDirectory(prefix="broker-ctl-footprint-") as name:
        directory = Path(name)
        async with Ensemble.of(directory / "zookeeper") as ensemble:
            hosts = ensemble.connect_string
            await measure(directory, 0, hosts, idle_s=0.0)
            found = []
            for number in range(1, runs + 1):
                seen = await measure(directory, number, hosts, idle_s)
                sys.stderr.write(f"run {number}: {seen.rss_mb:.1f} MB, {seen.ready_s:.3f} s\n")
                found.append(seen)
    return Footprint(
        round(statistics.median(one.rss_mb for one in found), 1),
        round(statistics.median(one.ready_s for one in found), 3),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs that the median is taken of (3)")
    parser.add_argument(
        "--idle", type=float, default=5.0, help="idle seconds before memory is read (5)"
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.benchmarks.machine.load import with_machine_load

    # As Ctrl-C: the daemon and the server end with the benchmark.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = with_machine_load(lambda: asdict(asyncio.run(run(arguments.runs, arguments.idle))))
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
