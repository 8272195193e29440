"""The run from start to end, on the same three servers: one cluster of brokers after another."""

import statistics
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Purpose
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.failover import term_course, term_memory
from tests.benchmarks.failover.brokers import Failover, measure_death, measure_shutdown
from tests.benchmarks.failover.controllers import Takeover, measure_takeover
from tests.benchmarks.failover.layout import cluster_layout
from tests.benchmarks.failover.memory import peak_rss_mb
from tests.benchmarks.failover.raw import RawTransactions, raw_transactions
from tests.benchmarks.failover.scene import Scene, scene
from tests.benchmarks.failover.serial import measure_serial
from tests.benchmarks.failover.servers import watches
from tests.benchmarks.failover.term_memory import lay_cluster
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.store.processes import measured_apart

SERVERS: Final = 3
DEATHS: Final = "broker_failover"
TRANSPORTS: Final = "by_transport"
TAKEOVERS: Final = "controller_failover"
SHUTDOWNS: Final = "controlled_shutdown"
MEMORY: Final = "memory"
TERM: Final = "term"
PARTS: Final = (DEATHS, TRANSPORTS, TAKEOVERS, SHUTDOWNS, MEMORY, TERM)
# Of one process without replicas.
_APART: Final = frozenset({MEMORY, TERM})
# All but one part are measured with the default.
_HTTP: Final = "http"
_QUEUE: Final = "zkqueue"
_SERIAL: Final = "/serial"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much is asked for.

    Attributes:
        partitions: counts, ascending; transports and controlled shutdowns are measured with the
            first.
        runs: of which the median counts, after one that does not.
    """

    partitions: Sequence[int]
    parts: Collection[str]
    runs: int
    heap_mb: int


class Course:
    """One run of the benchmark."""

    def __init__(self, wanted: Wanted, ensemble: Ensemble, directory: Path) -> None:
        self._wanted = wanted
        self._directory = directory
        self._hosts = ensemble.connect_string
        self._ports = [server.client_port for server in ensemble.servers]
        self._serial_s = 0.0
        self._found: dict[str, Any] = {part: {} for part in PARTS if part in wanted.parts}

    async def run(self) -> dict[str, Any]:
        """The object."""
        wanted = self._wanted
        root = await _opened(self._hosts, "")
        try:
            if DEATHS in wanted.parts:
                await root.create(_SERIAL)
                await self._measure_serial()
            if TRANSPORTS in wanted.parts:
                await root.create(f"/{_QUEUE}")
                await self._measure_queue()
            for count in wanted.partitions:
                if MEMORY in wanted.parts:
                    self._found[MEMORY][str(count)] = await self._measure_memory(root, count)
                if TERM in wanted.parts:
                    self._found[TERM][str(count)] = await self._measure_term(root, count)
                await root.create(f"/n{count}")
                await root.create(f"/raw{count}")
                await self._measure_count(count)
        finally:
            await root.close()
        return self._found

    async def _measure_serial(self) -> None:
        store = await _opened(self._hosts, _SERIAL)
        try:
            self._serial_s = await measure_serial(store)
        finally:
            await store.close()
        report_progress(f"one by one: {self._serial_s * 1000:.2f} ms a partition")

    async def _measure_queue(self) -> None:
        count = self._wanted.partitions[0]
        report_progress(f"{_QUEUE}: {count} partitions")
        async with self._scene(f"/{_QUEUE}", count, {"stateChangeTransport": _QUEUE}) as it:
            self._found[TRANSPORTS][_QUEUE] = _seconds(await self._deaths(it))

    async def _measure_memory(self, root: ZooKeeperStore, count: int) -> dict[str, Any]:
        report_progress(f"memory: {count} partitions")
        chroot = f"/memory{count}"
        await root.create(chroot)
        await lay_cluster(self._hosts, chroot, count)
        task = {"hosts": self._hosts, "chroot": chroot, "partitions": count}
        found = await measured_apart(term_memory.__name__, task, term_memory.LIMIT_S)
        report_progress(f"  {count}: {found}")
        return found

    async def _measure_term(self, root: ZooKeeperStore, count: int) -> dict[str, Any]:
        report_progress(f"term: {count} partitions")
        chroot = f"/term{count}"
        await root.create(chroot)
        task = {"hosts": self._hosts, "chroot": chroot, "partitions": count}
        found = await measured_apart(term_course.__name__, task, term_course.LIMIT_S)
        report_progress(f"  {count}: {found}")
        return found

    async def _measure_count(self, count: int) -> None:
        found, is_first = self._found, count == self._wanted.partitions[0]
        # With the first count only.
        each_count = {DEATHS, TAKEOVERS}
        parts = [part for part in found if part not in _APART and (is_first or part in each_count)]
        if not parts:
            return
        report_progress(f"{count} partitions")
        async with self._scene(f"/n{count}", count, {}) as it:
            deaths: Sequence[Failover] = ()
            if DEATHS in parts:
                layout = cluster_layout(count)
                async with raw_transactions(self._hosts, f"/raw{count}", layout) as raw:
                    deaths = await self._deaths(it, raw)
                    found[DEATHS][str(count)] = self._row(count, deaths, raw.seconds[1:])
            elif TRANSPORTS in parts:
                deaths = await self._deaths(it)
            if TRANSPORTS in parts:
                found[TRANSPORTS][_HTTP] = _seconds(deaths)
            if SHUTDOWNS in parts:
                took_s = [await measure_shutdown(it) for _ in range(self._wanted.runs)]
                found[SHUTDOWNS][str(count)] = _median(took_s)
            if TAKEOVERS in parts:
                takeovers = [await measure_takeover(it) for _ in range(self._wanted.runs)]
                self._note_takeovers(count, takeovers)
            await self._note_costs(it)

    def _scene(
        self, chroot: str, count: int, settings: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Scene]:
        return scene(self._hosts, chroot, self._directory / chroot.strip("/"), count, settings)

    async def _deaths(self, it: Scene, raw: RawTransactions | None = None) -> list[Failover]:
        """The first one does not count: servers and daemons are cold."""
        runs: list[Failover] = []
        for _ in range(self._wanted.runs + 1):
            if raw is not None:
                await raw.run()
            runs.append(await measure_death(it, self._ports))
        return runs[1:]

    def _row(
        self, count: int, deaths: Sequence[Failover], raw_s: Sequence[float]
    ) -> dict[str, Any]:
        return {
            "seconds": _seconds(deaths),
            "range_s": [round(pick(one.seconds for one in deaths), 3) for pick in (min, max)],
            "zk_ops": round(statistics.median(one.zk_ops for one in deaths)),
            "serial_s": round(self._serial_s * count, 1),
            "raw_s": _median(raw_s),
            "raw_ratio": _median(one.seconds / raw for one, raw in zip(deaths, raw_s, strict=True)),
            "kill_to_first_fetch_s": _median(one.first_fetch_s for one in deaths),
        }

    def _note_takeovers(self, count: int, takeovers: Sequence[Takeover]) -> None:
        self._found[TAKEOVERS][str(count)] = _median(one.seconds for one in takeovers)
        # The largest count comes last.
        rate = statistics.median(one.reads_per_s for one in takeovers)
        self._found["load_reads_per_s"] = round(rate)

    async def _note_costs(self, it: Scene) -> None:
        self._found["watches"] = await watches(self._ports)
        pids = [daemon.pid for daemon in it.daemons.running]
        peaks = [peak_rss_mb(pid) for pid in pids if pid is not None]
        self._found["peak_rss_mb"] = max(peaks)


async def run(wanted: Wanted) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="broker-ctl-failover-") as name:
        directory = Path(name)
        async with Ensemble.of(
            directory / "zookeeper",
            SERVERS,
            heap_mb=wanted.heap_mb,
            purpose=Purpose.SUSTAINED_LOAD,
        ) as ensemble:
            return await Course(wanted, ensemble, directory).run()


async def _opened(hosts: str, chroot: str) -> ZooKeeperStore:
    store = ZooKeeperStore(StoreOptions(hosts, chroot))
    await store.start()
    await store.wait_connected()
    return store


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 3)


def _seconds(deaths: Iterable[Failover]) -> float:
    return _median(one.seconds for one in deaths)
