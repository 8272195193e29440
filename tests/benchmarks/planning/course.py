"""Views of one cluster, the cycles over them, and what the event loop has beside them."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    max_usage,
    size_ratios,
)
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.planning.decide import CycleMemory, plan_proposals, propose
from broker_ctl.core.rules.leader_rules import MIB
from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.settings.root import Settings
from broker_ctl.tasks import TaskScope
from tests.benchmarks.store.figures import quantile_ms

_P = ParamSpec("_P")
_T = TypeVar("_T")

_PER_NAMESPACE: Final = 100
_MEAN_USAGE: Final = 0.55
_SIGMA: Final = 1.2
_SLEEP_S: Final = 0.001
_PAUSE_S: Final = 0.002
_IDLE_S: Final = 2.0
_ECHOED: Final = b"x" * 64


@dataclass
class Lags:
    """What the loop felt, in seconds."""

    timer_s: list[float] = field(default_factory=list)
    echo_s: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Quantiles."""
        return {"timer_late_ms": _quantiles(self.timer_s), "echo_ms": _quantiles(self.echo_s)}


def _quantiles(values_s: list[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: quantile_ms(values_s, share) for name, share in shares.items()}


@dataclass
class Cycles:
    """What cycles took: by the clock, and of a processor by part."""

    took_s: list[float] = field(default_factory=list)
    cpu_s: list[dict[str, float]] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Medians."""
        parts = {part: [each[part] for each in self.cpu_s] for part in self.cpu_s[0]}
        parts["all"] = [sum(each.values()) for each in self.cpu_s]
        return {
            "cycle_s": round(statistics.median(self.took_s), 2),
            "cycle_cpu_s": {
                part: round(statistics.median(values_s), 3) for part, values_s in parts.items()
            },
        }


class Course:
    """A cluster of log-normal loads, some bundles far too hot, spread at random."""

    def __init__(self, bundles: int, brokers: int) -> None:
        draws = random.Random(1)
        self._rings = [
            Ring.even(Namespace("public", f"n{number}"), _PER_NAMESPACE)
            for number in range(bundles // _PER_NAMESPACE)
        ]
        self._owners: dict[Bundle, str] = {}
        self._lines: dict[str, dict[str, BundleStats]] = {}
        self._loads: dict[Bundle, BundleLoad] = {}
        for number, bundle in enumerate(each for ring in self._rings for each in ring.bundles):
            rate = 40_000.0 if number % 1000 == 0 else draws.lognormvariate(4.0, _SIGMA)
            bytes_s = draws.lognormvariate(10.5, _SIGMA)
            line = BundleStats(rate / 2, rate / 2, bytes_s, bytes_s, 10, 20, 30)
            owner = self._owners[bundle] = f"10.0.0.{draws.randrange(brokers)}:8080"
            self._lines.setdefault(owner, {})[str(bundle)] = line
            self._loads[bundle] = BundleLoad.unseen().fold(line)
        self._rules = leader_rules(Settings())
        self._planner = WorkerThread("planner")
        self._memory = CycleMemory()
        self._cpu_s: dict[str, float] = {}

    async def run(self, cycles: int) -> tuple[Lags, Lags, Cycles]:
        """An idle loop's lags, those beside the cycles, and the cycles."""
        # The first cycle imports numpy, and has no former view to free.
        view = await self._cycle(0.0)
        idle, busy = Lags(), Lags()
        async with Watched(idle):
            await asyncio.sleep(_IDLE_S)
        measured = Cycles()
        async with Watched(busy):
            for number in range(1, cycles + 1):
                began_s = time.perf_counter()
                self._cpu_s = {}
                view = await self._cycle(60.0 * number)
                measured.took_s.append(time.perf_counter() - began_s)
                measured.cpu_s.append(self._cpu_s)
        assert len(view.bundles) == len(self._owners)
        return idle, busy, measured

    async def _cycle(self, now_s: float) -> ClusterView:
        # In the thread, too: to sum up all lines takes a tenth of a second.
        brokers = await self._planner.run(self._brokers)
        view = await self._timed(
            "view",
            snapshot,
            epoch=1,
            taken_at_s=now_s,
            draw_seed=7,
            brokers=brokers,
            bundles=self._bundles(),
            rings=self._rings,
        )
        self._memory, proposals = await self._timed(
            "propose", propose, self._memory, view, self._rules, is_shed_due=True, is_split_due=True
        )
        plan = await self._timed("plan", plan_proposals, view, proposals, self._rules)
        assert plan.decisions
        return view

    async def _timed(
        self, part: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run in the planner's thread, and take its processor time."""
        began_s = await self._planner.run(time.thread_time)
        found = await self._planner.run(function, *args, **kwargs)
        self._cpu_s[part] = await self._planner.run(time.thread_time) - began_s
        return found

    def _bundles(self) -> Iterator[BundleView]:
        return (BundleView(each, owner, self._loads[each]) for each, owner in self._owners.items())

    def _brokers(self) -> list[BrokerView]:
        totals = {each: BundleStats.total_of(lines.values()) for each, lines in self._lines.items()}
        mean_bytes = sum(total.throughput for total in totals.values()) / len(totals)
        limit = mean_bytes / _MEAN_USAGE / MIB / 2
        usages = {
            each: SystemUsage(
                cpu=ResourceUsage(400.0, 800.0),
                bandwidth_in=ResourceUsage(total.msg_throughput_in / MIB, limit),
                bandwidth_out=ResourceUsage(total.msg_throughput_out / MIB, limit),
            )
            for each, total in totals.items()
        }
        sizes = size_ratios(usages)
        return [
            BrokerView(
                each,
                BrokerLoad(each, usage, self._lines[each]),
                max_usage(usage),
                size_ratio=sizes[each],
            )
            for each, usage in usages.items()
        ]


class Watched:
    """The scope in which a loop is watched."""

    def __init__(self, lags: Lags) -> None:
        self._lags = lags
        self._scope = TaskScope("watch")

    async def __aenter__(self) -> None:
        self._server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        await self._scope.__aenter__()
        self._scope.start(self._sleep(), "sleep")
        self._scope.start(self._ask(port), "ask")

    async def __aexit__(self, *_: object) -> None:
        await self._scope.close()
        self._server.close()

    async def _sleep(self) -> None:
        while True:
            due_s = time.perf_counter() + _SLEEP_S
            await asyncio.sleep(_SLEEP_S)
            self._lags.timer_s.append(time.perf_counter() - due_s)

    async def _ask(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                began_s = time.perf_counter()
                writer.write(_ECHOED)
                await reader.readexactly(len(_ECHOED))
                self._lags.echo_s.append(time.perf_counter() - began_s)
                await asyncio.sleep(_PAUSE_S)
        finally:
            writer.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(4096):
            writer.write(data)
    finally:
        writer.close()
