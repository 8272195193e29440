"""Compare decoding and encoding of the store's JSON on the event loop with threads and processes.

Payloads of five sizes are decoded and encoded in bursts, in four ways: on the loop, one at a time
(inline); in one thread; in two threads, of which the crc32 of the path chooses one, as in Pulsar
(path_threads); and in two processes. A timer on the same loop is due every millisecond; the lag of
a burst is its largest delay. The ways take turns, round by round. It prints medians by direction
and size:

lag_ms   lag of the event loop
mb_s     10**6 bytes of JSON in a second
wins     ways that are better than inline: at most half of the lag with nine tenths of the
         throughput, or at most 1.1 of the lag with 1.25 of the throughput, in at least four fifths
         of the rounds; a lag below 2 ms counts as 2 ms
"""

import argparse
import asyncio
import ctypes
import os
import statistics
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import uvloop

from broker_ctl.codec import decode, encode, encode_pretty
from broker_ctl.tasks import TaskScope

SIZES_BYTES: Final = (1 << 10, 16 << 10, 128 << 10, 1 << 20, 10 << 20)
# Limits of a burst: bytes and payloads.
BURST_BYTES: Final = 4 << 20
BURST_PAYLOADS: Final = 400
WORKERS: Final = 2
PROBE_S: Final = 0.001
FELT_MS: Final = 2.0

Work = Callable[[Any], Any]
Way = Callable[[Work, Sequence[tuple[str, Any]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst, or the medians of several. ``mb_s`` counts 10**6 bytes of JSON."""

    lag_ms: float
    mb_s: float

    @classmethod
    def median(cls, bursts: Sequence["Burst"]) -> "Burst":
        """Each figure by itself."""
        return cls(
            round(statistics.median(one.lag_ms for one in bursts), 2),
            round(statistics.median(one.mb_s for one in bursts), 1),
        )


def payload(size_bytes: int) -> dict[str, Any]:
    """A load report with as many bundles as make up the size."""
    stats = {
        "msgRateIn": 1234.5678, "msgThroughputIn": 9876543.21, "msgRateOut": 2345.6789,
        "msgThroughputOut": 19876543.21, "consumerCount": 17, "producerCount": 4, "topics": 96,
        "cacheSize": 0,
    }  # fmt: skip
    one = len(encode({"tenant/namespace/0x00000000_0x00000000": stats}))
    names = (f"tenant/namespace/0x{n:08x}_0x{n + 1:08x}" for n in range(max(1, size_bytes // one)))
    return {"lastStats": dict.fromkeys(names, stats)}


async def inline(work: Work, items: Sequence[tuple[str, Any]]) -> None:
    """On the loop: after each payload, callbacks that are due run, and those that they schedule."""
    results = []  # as the futures of the other ways keep theirs
    for _, item in items:
        results.append(work(item))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def pooled(executors: Sequence[Executor]) -> Way:
    """Each path in the executor that its checksum chooses; all are handed in at once."""

    async def way(work: Work, items: Sequence[tuple[str, Any]]) -> None:
        loop = asyncio.get_running_loop()
        futures = [
            loop.run_in_executor(executors[zlib.crc32(path.encode()) % len(executors)], work, item)
            for path, item in items
        ]
        for future in futures:
            await future

    return way


async def measured(
    way: Way, work: Work, items: Sequence[tuple[str, Any]], size_bytes: int
) -> Burst:
    """The worst lag of the loop, and the throughput."""
    worst_s = 0.0

    async def probe() -> None:
        nonlocal worst_s
        while True:
            # The loop's own clock counts in milliseconds.
            due_s = time.perf_counter() + PROBE_S
            await asyncio.sleep(PROBE_S)
            worst_s = max(worst_s, time.perf_counter() - due_s)

    async with TaskScope("benchmark") as tasks:
        tasks.start(probe(), "probe")
        await asyncio.sleep(0)
        began_s = time.perf_counter()
        await way(work, items)
        took_s = time.perf_counter() - began_s
        await asyncio.sleep(2 * PROBE_S)  # what the probe has to say of the end
    return Burst(worst_s * 1000, size_bytes * len(items) / took_s / 1e6)


async def compare(
    ways: dict[str, Way], work: Work, item: Any, size_bytes: int, budget_s: float
) -> dict[str, list[Burst]]:
    """All ways in turn, at least five times, and on until the budget is used up."""
    count = max(2, min(BURST_PAYLOADS, BURST_BYTES // size_bytes))
    items = [(f"/loadbalance/brokers/broker-{n}:8080", item) for n in range(count)]
    seen: dict[str, list[Burst]] = {name: [] for name in ways}
    end_s = time.perf_counter() + budget_s
    rounds = 0
    while rounds < 5 or time.perf_counter() < end_s:
        # No way always follows the same other one.
        names = list(ways)[rounds % len(ways) :] + list(ways)[: rounds % len(ways)]
        for name in names:
            seen[name].append(await measured(ways[name], work, items, size_bytes))
        rounds += 1
    return seen


def winners(seen: dict[str, list[Burst]]) -> list[str]:
    """Ways that are worth leaving the loop for; see the module's first words."""

    def is_better(one: Burst, loop: Burst) -> bool:
        lag = max(one.lag_ms, FELT_MS) / max(loop.lag_ms, FELT_MS)
        speed = one.mb_s / loop.mb_s
        return (lag <= 0.5 and speed >= 0.9) or (lag <= 1.1 and speed >= 1.25)

    return [
        name
        for name, bursts in seen.items()
        if sum(map(is_better, bursts, seen["inline"])) >= 0.8 * len(bursts)
    ]


async def run(budget_s: float) -> dict[str, Any]:
    """Every direction and size."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:

        def threads(count: int) -> list[Executor]:
            return [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(count)]

        context = get_context("spawn")
        processes: list[Executor] = [
            stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(WORKERS)
        ]
        ways: dict[str, Way] = {
            "inline": inline,
            "thread": pooled(threads(1)),
            "path_threads": pooled(threads(WORKERS)),
            "processes": pooled(processes),
        }
        for way in ways.values():  # start what is to be started
            await way(decode, [(f"/{n}", b"1") for n in range(8 * WORKERS)])
        cell_s = budget_s / (2 * len(SIZES_BYTES))
        for size_bytes in SIZES_BYTES:
            value = payload(size_bytes)
            data = encode(value)
            for direction, work, item in (("decode", decode, data), ("encode", encode, value)):
                found = await compare(ways, work, item, len(data), cell_s)
                row = {
                    "direction": direction,
                    "bytes": len(data),
                    "ways": {way: asdict(Burst.median(seen)) for way, seen in found.items()},
                    "wins": winners(found),
                }
                sys.stderr.write(f"{row}\n")
                rows.append(row)
    return {"cpus": os.cpu_count(), "rows": rows, "wins": any(row["wins"] for row in rows)}


def allocate_alike() -> None:
    """Let large buffers come from the kernel and go back to it, whichever thread asks.

    glibc lets a thread's arena keep them and trims the main one: at 10 MB that is a quarter of the
    speed, and no merit of threads.
    """
    mmap_threshold = -3
    ctypes.CDLL(None).mallopt(mmap_threshold, 64 << 10)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--budget", type=float, default=15.0, help="seconds to measure for (15)")
    arguments = parser.parse_args()
    allocate_alike()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.benchmarks.machine.load import with_machine_load

    def measure() -> dict[str, Any]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run(arguments.budget))

    found = with_machine_load(measure)
    if arguments.json:
        sys.stdout.write(encode(found).decode() + "\n")
    else:
        sys.stdout.write(encode_pretty(found).decode() + "\n")


if __name__ == "__main__":
    main()
