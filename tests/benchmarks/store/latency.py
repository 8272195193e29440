"""Latency of a get at several rates on a quiet ensemble: the store, and our client without it.

Both live in one process and talk to the same server over a connection each. They take turns, slice
by slice, and a slice has the same due times for both.
"""

import gc
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from broker_ctl.clock import SystemClock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.pacing import arrivals, ask_open_loop, now_s
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)
from tests.benchmarks.store.tree import direct_store, keys, lay, remove, value

_ROOT: Final = "/latency"
_WARM_RATE: Final = 1000
_STORE: Final = "store"
_DIRECT: Final = "direct"


@dataclass(frozen=True, slots=True)
class Slices:
    """At ``rate`` a second, ``count`` slices of ``length_s`` for each of the two."""

    rate: int
    count: int
    length_s: float


# At 5 op/s more than 300 requests each, which takes most of the time; elsewhere 1,500 and more.
FULL: Final = (
    Slices(5, 6, 10.5),
    Slices(100, 6, 2.5),
    Slices(1000, 8, 1.0),
    Slices(5000, 12, 1.0),
)
QUICK: Final = (Slices(5, 1, 0.6), *(Slices(rate, 1, 0.2) for rate in (100, 1000, 5000)))


@dataclass(frozen=True, slots=True)
class Latency:
    """Task of the measuring process; ``slices`` as plain values."""

    host: str
    count: int
    warm_s: float
    slices: Sequence[Any] = field(default_factory=list)


async def measure(store: ZooKeeperStore, port: int, *, is_quick: bool) -> dict[str, Any]:
    """The object of the benchmark: quantiles in ms by rate."""
    slices = QUICK if is_quick else FULL
    task = Latency(
        f"127.0.0.1:{port}",
        count=1000,
        warm_s=0.2 if is_quick else 5.0,
        slices=[asdict(one) for one in slices],
    )
    paths = keys(_ROOT, task.count)
    await store.create(_ROOT)
    await lay(store, ((path, value(i)) for i, path in enumerate(paths)))
    found = await measured_apart(__name__, asdict(task))
    await remove(store, [*paths, _ROOT])
    return found


async def _measured(task: Latency) -> dict[str, Any]:
    async with direct_store(task.host) as under, direct_store(task.host) as direct:
        store = BatchedStore(under, BatchRules(), SystemClock(), StoreInstruments())
        turns = (_Turns(store, task.count), _Turns(direct, task.count))
        for turn in turns:
            await turn.slice(Slices(_WARM_RATE, 1, task.warm_s), seed=-1)
        gc.collect()
        gc.freeze()
        for one in (Slices(**fields) for fields in task.slices):
            for number in range(one.count):
                for turn in turns if number % 2 else reversed(turns):
                    turn.took_s[one.rate] += await turn.slice(one, seed=number)
            report_progress(f"latency at {one.rate} op/s: " + str(_quantiles(one.rate, *turns)))
        await store.close()
    return {str(fields["rate"]): _quantiles(fields["rate"], *turns) for fields in task.slices}


class _Turns:
    """One of the two, and how long its requests took, by rate."""

    def __init__(self, store: MetadataStore, count: int) -> None:
        self._store = store
        self._paths = keys(_ROOT, count)
        self.took_s: dict[int, list[float]] = defaultdict(list)

    async def slice(self, one: Slices, seed: int) -> list[float]:
        """Ask at the due times that belong to ``seed``; each answer is looked at."""
        rng = random.Random(f"{one.rate} {seed}")
        end_s = now_s() + one.length_s
        dues_s = []
        for due_s in arrivals(one.rate, rng):
            if due_s >= end_s:
                break
            dues_s.append(due_s)
        return await ask_open_loop(dues_s, lambda: self._ask(rng.randrange(len(self._paths))))

    async def _ask(self, index: int) -> None:
        node = await self._store.get(self._paths[index])
        if node is None or node.data != value(index):
            raise RuntimeError(f"{self._paths[index]}: {node}")


def _quantiles(rate: int, store: _Turns, direct: _Turns) -> dict[str, Any]:
    return {
        f"{name}_{label}": quantile_ms(turns.took_s[rate], share)
        for name, turns in ((_STORE, store), (_DIRECT, direct))
        for label, share in (("p50", 0.5), ("p99", 0.99))
    } | {f"{_STORE}_count": len(store.took_s[rate]), f"{_DIRECT}_count": len(direct.took_s[rate])}


def added(quantiles: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """What the store adds to a direct call at the median, in ms by rate."""
    return {
        rate: round(found[f"{_STORE}_p50"] - found[f"{_DIRECT}_p50"], 3)
        for rate, found in quantiles.items()
    }


def main() -> None:
    """Measure in this process."""
    answer(run_on_uvloop(_measured(Latency(**task_of_this_process()))))


if __name__ == "__main__":
    main()
