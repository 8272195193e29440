"""The store with an identity, access control and TLS, by turns with the store without any of it.

One ZooKeeper server answers on a port in the clear and on one with TLS. Each client has a process
of its own. ``raw`` is what TLS alone costs: prepared frames of 200 reads on a transport of asyncio,
and nothing of ours.
"""

import asyncio
import gc
import statistics
import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, Final, cast

from broker_ctl.clock import SystemClock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.zookeeper.access import Identity
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.store.pacing import now_s
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)
from tests.benchmarks.store.tree import VALUE_BYTES, keys, lay, value
from tests.support.zookeeper.secured import SASL, SecuredServer, secured_server

KINDS: Final = ("get", "set")
# The store by what it has: SASL with access control, TLS, or both.
WAYS: Final = ("plain", "sasl", "tls", "tls_sasl")
RAW_WAYS: Final = ("raw_plain", "raw_tls")
_LAID: Final = "/laid"
_SASL_LAID: Final = "/laid-sasl"
_FRAME_READS: Final = 200
_FRAMES_AT_ONCE: Final = 10
# Frames take a fraction of the time of as many reads through the store.
_RAW_TURNS: Final = 4
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ii")
_PART: Final = struct.Struct(">iBi")
_MULTI_READ: Final = 22
_GET_DATA: Final = 4


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is asked for, as in `throughput.Extent`."""

    count: int = 10_000
    warm_count: int = 2_000
    outstanding: int = 2_000
    rounds: int = 5


QUICK: Final = Extent(count=400, warm_count=200, outstanding=100, rounds=1)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one client."""

    way: str
    kind: str
    host: str
    authority: str
    count: int
    warm_count: int
    outstanding: int

    @property
    def tls(self) -> SSLContext | None:
        """Without a client certificate."""
        return create_default_context(cafile=self.authority) if "tls" in self.way else None

    def nodes(self, count: int) -> list[tuple[str, bytes]]:
        """The first nodes, with their values."""
        root = _SASL_LAID if "sasl" in self.way else _LAID
        return [(path, value(i)) for i, path in enumerate(keys(root, count))]


async def measure(extent: Extent) -> dict[str, Any]:
    """Medians by way, and each over the plain one; round by round."""
    rates, of_cpu = _no_rates(), _no_rates()
    with (
        tempfile.TemporaryDirectory(prefix="broker-ctl-secured-store-") as name,
        secured_server(Path(name) / "server") as server,
    ):
        for is_sasl, root in ((False, _LAID), (True, _SASL_LAID)):
            async with _connected(_options(server.plain_address, is_sasl=is_sasl)) as store:
                await store.create(root)
                nodes = ((p, value(i)) for i, p in enumerate(keys(root, extent.count)))
                await lay(store, nodes)
        for number in range(extent.rounds):
            for kind in KINDS:
                ways = [*WAYS, *(RAW_WAYS if kind == "get" else ())]
                for place in range(len(ways)):
                    way = ways[(number + place) % len(ways)]
                    found = await _one(server, way, kind, extent)
                    rates[kind][way].append(found["done"] / found["took_s"])
                    of_cpu[kind][way].append(found["done"] / found["cpu_s"])
                shown = {way: round(each[-1]) for way, each in rates[kind].items()}
                report_progress(f"secured round {number + 1}: {kind} {shown}")
    return _summary(rates, of_cpu)


# By kind and way, round by round.
Rates = dict[str, dict[str, list[float]]]


def _no_rates() -> Rates:
    return {kind: defaultdict(list) for kind in KINDS}


async def _one(server: SecuredServer, way: str, kind: str, extent: Extent) -> dict[str, float]:
    task = Run(
        way=way,
        kind=kind,
        host=server.tls_address if "tls" in way else server.plain_address,
        authority=str(server.authority),
        count=extent.count,
        warm_count=extent.warm_count,
        outstanding=extent.outstanding,
    )
    return await measured_apart(__name__, asdict(task))


def _medians(rates: Rates) -> dict[str, dict[str, float]]:
    return {
        kind: {way: statistics.median(found) for way, found in of_kind.items()}
        for kind, of_kind in rates.items()
    }


def _ratios(medians: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Each way over the plain one."""
    return {
        kind: {way: round(of_kind[way] / of_kind["plain"], 3) for way in WAYS[1:]}
        for kind, of_kind in medians.items()
    }


def _summary(rates: Rates, of_cpu: Rates) -> dict[str, Any]:
    medians = _medians(rates)
    return {
        "ops_s": {
            kind: {way: round(rate) for way, rate in of_kind.items()}
            for kind, of_kind in medians.items()
        },
        "ratio": _ratios(medians),
        "cpu_ratio": _ratios(_medians(of_cpu)),
        "raw_tls_ratio": round(medians["get"]["raw_tls"] / medians["get"]["raw_plain"], 3),
    }


def _options(host: str, *, is_sasl: bool = False, tls: SSLContext | None = None) -> StoreOptions:
    return StoreOptions(host, identity=Identity(sasl=SASL if is_sasl else b""), tls=tls)


@asynccontextmanager
async def _connected(options: StoreOptions) -> AsyncIterator[ZooKeeperStore]:
    store = ZooKeeperStore(options)
    await store.start()
    try:
        await store.wait_connected()
        yield store
    finally:
        await store.close()


async def _by_store(task: Run) -> dict[str, Any]:
    options = _options(task.host, is_sasl="sasl" in task.way, tls=task.tls)
    async with _connected(options) as direct:
        store = BatchedStore(direct, BatchRules(), SystemClock(), StoreInstruments())
        try:
            return await _timed(store, task)
        finally:
            await store.close()


async def _timed(store: BatchedStore, task: Run) -> dict[str, Any]:

    async def all_of(nodes: Sequence[tuple[str, bytes]]) -> None:
        coming = iter(nodes)

        async def some() -> None:
            for path, data in coming:
                if task.kind == "set":
                    await store.set(path, data)
                else:
                    found = await store.get(path)
                    assert found is not None
                    assert found.data == data

        async with asyncio.TaskGroup() as group:
            for number in range(task.outstanding):
                group.create_task(some(), name=f"ask {number}")

    await all_of(task.nodes(task.warm_count))
    work = task.nodes(task.count)
    gc.collect()
    gc.freeze()
    began_s, cpu_s = now_s(), time.process_time()
    await all_of(work)
    return {
        "done": task.count,
        "took_s": now_s() - began_s,
        "cpu_s": time.process_time() - cpu_s,
    }


class _RawReads(asyncio.Protocol):
    """A session that sends prepared frames, some at a time, and counts the bytes of replies."""

    def __init__(self, frames: Iterator[bytes]) -> None:
        self._frames = frames
        self._replies = 0
        self._wanted = 0
        self._held = b""
        self.received_bytes = 0
        self._transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        self.is_open: asyncio.Future[None] = loop.create_future()
        self._is_done: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a session."""
        self._transport = cast("asyncio.Transport", transport)
        body = struct.pack(">iqiqi16sB", 0, 0, 10_000, 0, 16, bytes(16), 0)
        self._transport.write(_LENGTH.pack(len(body)) + body)

    def data_received(self, data: bytes) -> None:
        """Replies, of which only the lengths are read."""
        self.received_bytes += len(data)
        held = self._held + data if self._held else data
        at = 0
        while len(held) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(held, at)[0]
            if len(held) < end:
                break
            at = end
            self._replied()
        self._held = held[at:]

    def connection_lost(self, error: Exception | None) -> None:
        """It was not to end before the last reply."""
        for waiting in (self.is_open, self._is_done):
            if not waiting.done():
                waiting.set_exception(error or ConnectionResetError("by the server"))

    async def wait_replies(self, count: int) -> None:
        """Wait for as many replies in all."""
        self._wanted = count
        if self._replies < count:
            self._is_done = asyncio.get_running_loop().create_future()
            await self._is_done

    def ask(self) -> None:
        """Send the next frame, if there is one."""
        frame = next(self._frames, None)
        if frame is not None and self._transport is not None:
            self._transport.write(frame)

    def _replied(self) -> None:
        if not self.is_open.done():
            self.is_open.set_result(None)
            return
        self._replies += 1
        if self._replies == self._wanted and not self._is_done.done():
            self._is_done.set_result(None)
        self.ask()


async def _raw(task: Run) -> dict[str, Any]:
    paths = [path for path, _ in task.nodes(task.count)]
    warm = list(_read_frames(paths))
    frames = warm * _RAW_TURNS
    host, _, port = task.host.rpartition(":")
    transport, reads = await asyncio.get_running_loop().create_connection(
        lambda: _RawReads(iter(warm + frames)), host, int(port), ssl=task.tls
    )
    try:
        await reads.is_open
        for _ in range(_FRAMES_AT_ONCE):
            reads.ask()
        await reads.wait_replies(len(warm))
        began_s, cpu_s = now_s(), time.process_time()
        await reads.wait_replies(len(warm) + len(frames))
        done = len(paths) * _RAW_TURNS
        assert reads.received_bytes > done * VALUE_BYTES
        return {
            "done": done,
            "took_s": now_s() - began_s,
            "cpu_s": time.process_time() - cpu_s,
        }
    finally:
        transport.close()


def _read_frames(paths: Sequence[str]) -> Iterator[bytes]:
    for number, at in enumerate(range(0, len(paths), _FRAME_READS), start=1):
        yield _read_frame(number, paths[at : at + _FRAME_READS])


def _read_frame(number: int, paths: Sequence[str]) -> bytes:
    """A multiRead of these nodes, with its length."""
    parts = [_HEADER.pack(number, _MULTI_READ)]
    for path in paths:
        name = path.encode()
        parts += [_PART.pack(_GET_DATA, 0, -1), _LENGTH.pack(len(name)), name, b"\0"]
    parts.append(_PART.pack(-1, 1, -1))
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


if __name__ == "__main__":
    this = Run(**task_of_this_process())
    answer(run_on_uvloop(_raw(this) if this.way in RAW_WAYS else _by_store(this)))
