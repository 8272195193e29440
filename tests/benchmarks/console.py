"""Measure what open consoles add to the delay of a daemon's event loop.

An API server over a cluster in memory serves the first page of the console live to clients in a
process of their own. Meanwhile the loop sleeps for 1 ms at a time. It prints:

timer_late_ms      delay of the sleeps with the consoles: quantiles
idle               the same in the same process without consoles
added_p99_ms       difference of the two at p99
updates_per_s      updates that all consoles together received, per second
late_heartbeats    delays above 250 ms with the consoles: a heartbeat may be late by a tick at most
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

# What the period of heartbeats has beyond a tick of the servers.
_HEARTBEAT_SLACK_MS = 250.0
_CLIENTS = """
import asyncio, sys
import aiohttp

async def watch(session, url):
    while True:
        async with session.get(url) as reply:
            async for line in reply.content:
                if line == b"\\n":
                    print(flush=True)

async def main(url, count):
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(watch(session, url))
            await asyncio.sleep(1 / count)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--consoles", type=int, default=50, help="open consoles (50)")
    parser.add_argument("--brokers", type=int, default=30, help="live brokers (30)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement (15)")
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import uvloop

    from broker_ctl.codec import encode, encode_pretty
    from broker_ctl.daemon.lifecycle.interpreter import freeze_garbage
    from tests.benchmarks.machine.load import with_machine_load

    freeze_garbage()

    def measure() -> dict[str, Any]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(
                measure_consoles(arguments.consoles, arguments.brokers, arguments.seconds)
            )

    found = with_machine_load(measure)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


async def measure_consoles(consoles: int, brokers: int, seconds: float) -> dict[str, Any]:
    """Delays of the loop's sleeps without consoles, then with them."""
    from tests.support.clusters.fake_services import serving_brokers, urls_at
    from tests.support.http.web_server import free_port

    async with serving_brokers([free_port()]) as [broker]:
        for port in range(10_000, 10_000 + brokers - 1):
            broker.world.brokers[f"127.0.0.1:{port}"] = urls_at(port)
        idle = await late_ms(seconds)
        clients = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _CLIENTS, f"{broker.url}/ui/live", str(consoles)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert clients.stdout is not None
        try:
            for _ in range(2 * consoles):
                await clients.stdout.readline()
            counted = asyncio.Event()
            counting = asyncio.get_running_loop().create_task(_count(clients.stdout, counted))
            busy = await late_ms(seconds)
            counted.set()
            updates = await counting
        finally:
            clients.kill()
            await clients.wait()
    added_ms = busy["p99"] - idle["p99"]
    return {
        "consoles": consoles,
        "brokers": brokers,
        "timer_late_ms": busy,
        "idle": idle,
        "added_p99_ms": round(added_ms, 3),
        "updates_per_s": round(updates / seconds, 1),
        "late_heartbeats": busy["late_heartbeats"],
    }


async def late_ms(seconds: float) -> dict[str, float]:
    """Quantiles of the delay of sleeps of 1 ms."""
    late: list[float] = []
    end_s = time.perf_counter() + seconds
    while (due_s := time.perf_counter() + 0.001) < end_s:
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - due_s) * 1000)
    late.sort()
    late_heartbeats = sum(each > _HEARTBEAT_SLACK_MS for each in late)
    quantiles = {
        name: round(late[min(len(late) - 1, int(len(late) * share))], 3)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0))
    }
    return {**quantiles, "late_heartbeats": late_heartbeats}


async def _count(lines: asyncio.StreamReader, counted: asyncio.Event) -> int:
    count = 0
    while not counted.is_set() and await lines.readline():
        count += 1
    return count


if __name__ == "__main__":
    main()
