"""A broker's death: its topics are loaded elsewhere, with cold caches, many at a time.

The loads are bulk requests. Beside them the same store answers interactive gets that have nothing
to do with them, and a heartbeat is written in the control class; a timer watches the loop. Three
ways take turns: the store; the store without its window and without its bounds on what is in flight
and on what is settled in one turn of the loop, for what the bounds cost; and the store as Pulsar
had it before PIP-453. A bystander that shares nothing
with the store but the servers shows what they have to give at the time.

Afterwards the store and the old model load as many topics at a time as a Pulsar broker does by its
defaults (`maxConcurrentTopicLoadRequest`), which is what production had when its gets took seconds.
"""

import asyncio
import gc
import itertools
import random
import statistics
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final
from unittest import mock

from broker_ctl.clock import SystemClock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.store.batching import entries
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import RequestClass, requests_as
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.store.bystander import Watch, standing_by
from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.old_model import MAX_FRAME_BYTES, OldStore
from tests.benchmarks.store.pacing import arrivals, ask_open_loop, every, now_s, pace
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)
from tests.benchmarks.store.topics import Loader, Store, Topics
from tests.benchmarks.store.tree import counted, keys, lay, remove, value
from tests.benchmarks.store.waits import Waits, WatchedStore

WAYS: Final = ("bounded", "unbounded", "old_model")
_ROOT: Final = "/foreground"
_NODES: Final = 1000
_HEARTBEAT: Final = f"{_ROOT}/heartbeat"
_BYSTANDER: Final = f"{_ROOT}/bystander"
_FOREGROUND_RATE: Final = 100
_HEARTBEAT_RATE: Final = 50
_LAG_PERIOD_S: Final = 0.01
_NO_BOUND: Final = 1 << 30
_MEASURES: Final = (
    "queue_wait_p99_ms",
    "bulk_queue_wait_p99_ms",
    "interactive_get_p99_ms",
    "control_p99_ms",
    "loop_lag_p99_ms",
    "topics_s",
    "bystander_get_p99_ms",
    "bystander_set_p99_ms",
)


@dataclass(frozen=True, slots=True)
class Storm:
    """One death, as one way goes through it.

    Attributes:
        way: see `WAYS`.
        host: the server that the broker talks to.
        topics: how many are loaded.
        at_once: loads in flight.
    """

    way: str
    host: str
    topics: int
    at_once: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How much.

    Attributes:
        topics: how many are loaded in a round, `warm_topics` before the first one.
        at_once: loads in flight, and `at_once_in_pulsar` in the rounds of the crowd.
        rounds: of all ways.
    """

    topics: int = 20_000
    at_once: int = 500
    at_once_in_pulsar: int = 5_000
    rounds: int = 3
    warm_topics: int = 4_000


QUICK: Final = Extent(topics=200, at_once=50, at_once_in_pulsar=100, rounds=1, warm_topics=50)

_CROWD_WAYS: Final = ("bounded", "old_model")

Found = dict[str, list[dict[str, Any]]]


async def measure(store: ZooKeeperStore, ports: Sequence[int], extent: Extent) -> dict[str, Any]:
    """The object of the benchmark: medians over the rounds."""
    topics, paths = Topics(extent.topics), keys(_ROOT, _NODES)
    report_progress(f"storm: laying {extent.topics} topics")
    for top in (_ROOT, _HEARTBEAT, *topics.tops):
        await store.create(top)
    await lay(store, ((path, value(i)) for i, path in enumerate(paths)))
    await lay(store, topics.nodes())
    await lay(store, topics.cursors())
    for way in WAYS:
        await _one(store, Storm(way, f"{LOOPBACK}:{ports[0]}", extent.warm_topics, extent.at_once))
    found = await _rounds(store, ports, extent, WAYS, extent.at_once)
    crowd = await _rounds(store, ports, extent, _CROWD_WAYS, extent.at_once_in_pulsar)
    await remove(store, [*topics.all_paths(), *reversed(topics.tops)])
    await remove(store, [_HEARTBEAT, *paths, _ROOT])
    return _summary(extent, found) | {"crowd": _crowd(extent, crowd)}


async def _rounds(
    store: ZooKeeperStore, ports: Sequence[int], extent: Extent, ways: Sequence[str], at_once: int
) -> Found:
    """The rounds, with the ways in turn and each way at every server."""
    found: Found = {way: [] for way in ways}
    for number in range(extent.rounds):
        port = ports[number % len(ports)]
        for place in range(len(ways)):
            way = ways[(number + place) % len(ways)]
            one = await _one(store, Storm(way, f"{LOOPBACK}:{port}", extent.topics, at_once))
            found[way].append(one)
            report_progress(f"storm round {number + 1}, {at_once} at once: {way} {one}")
    return found


async def _one(store: ZooKeeperStore, task: Storm) -> dict[str, Any]:
    """One death, in a process of its own; afterwards nothing is left of it but versions."""
    top, port = "managed-ledgers", int(task.host.rpartition(":")[2])
    watch = Watch(
        task.host,
        keys(_ROOT, _NODES),
        _BYSTANDER,
        read_rate=_FOREGROUND_RATE,
        write_rate=_HEARTBEAT_RATE,
    )
    before = await counted(port, top)
    async with standing_by(store, watch) as aside:
        found = await measured_apart(__name__, asdict(task))
    done = await counted(port, top) - before
    # Of the eight operations two read policies and one the number of partitions.
    # The old model reads again what it has cached and is notified of.
    refreshes = range(3 * task.topics + 1) if task.way == "old_model" else range(1)
    if done.writes != 2 * task.topics or done.reads - 3 * task.topics not in refreshes:
        raise RuntimeError(f"{task}: the server has counted {done}")
    await remove(store, Topics(task.topics).made_by_loading())
    return found | {f"bystander_{name}": value for name, value in aside.items()}


def _summary(extent: Extent, found: Found) -> dict[str, Any]:
    ours, unbounded, old = (_medians(found[way]) for way in WAYS)
    return {
        "topics": extent.topics,
        **ours,
        "topics_s_unbounded": unbounded["topics_s"],
        "unbounded": unbounded,
        "old_model": old,
    }


def _crowd(extent: Extent, found: Found) -> dict[str, Any]:
    ours, old = (_medians(found[way]) for way in _CROWD_WAYS)
    return {"at_once": extent.at_once_in_pulsar, **ours, "old_model": old}


def _medians(rounds: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in rounds), 3) for name in _MEASURES}


# In the process that measures.


@asynccontextmanager
async def _broker(task: Storm, waits: Waits) -> AsyncIterator[tuple[Store, Store]]:
    """The store of a broker, and what its heartbeats go through."""
    is_old = task.way == "old_model"
    rules = _rules(is_bounded=task.way == "bounded")
    frame_bytes = MAX_FRAME_BYTES if is_old else rules.max_frame_bytes
    under = WatchedStore(task.host, waits, frame_bytes)
    await under.start()
    await under.wait_connected()
    try:
        if is_old:
            old = OldStore(under)
            await old.start()
            yield old, old
            await old.close()
        else:
            store = BatchedStore(under, rules, SystemClock(), StoreInstruments())
            yield store, store.control
            await store.close()
    finally:
        await under.close()


def _rules(*, is_bounded: bool) -> BatchRules:
    if is_bounded:
        return BatchRules()
    # A constant of the store and not a rule, since no setting is to change it. `patch.object`
    # fails where the name is another one.
    mock.patch.object(entries, "FEWEST_A_TURN", _NO_BOUND).start()
    return BatchRules(max_in_flight=_NO_BOUND, follows_round_trip=False)


class _Beside:
    """What else the broker does while it loads topics."""

    def __init__(self, store: Store, control: Store, waits: Waits) -> None:
        self._store = store
        self._control = control
        self._waits = waits
        self._rng = random.Random(453)
        self._paths = keys(_ROOT, _NODES)
        self._version: int | None = None
        self._is_over = False
        self.gets_s: list[float] = []
        self.heartbeats_s: list[float] = []
        self.lags_s: list[float] = []

    async def run(self) -> None:
        """Go on until `end`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._foreground(), name="foreground")
            with requests_as(RequestClass.CONTROL):
                group.create_task(self._heartbeats(), name="heartbeats")
            group.create_task(self._watch_loop(), name="loop lag")

    def end(self) -> None:
        """Stop: requests that are due from now on are not sent."""
        self._is_over = True

    def _until_end(self, dues_s: Iterator[float]) -> Iterator[float]:
        return itertools.takewhile(lambda _: not self._is_over, dues_s)

    async def _foreground(self) -> None:
        dues_s = self._until_end(arrivals(_FOREGROUND_RATE, self._rng))
        self.gets_s = await ask_open_loop(dues_s, self._get)

    async def _get(self) -> None:
        index = self._rng.randrange(_NODES)
        path = self._paths[index]
        self._waits.asked(path)
        node = await self._store.get(path)
        if node is None or node.data != value(index):
            raise RuntimeError(f"{path}: {node}")

    async def _heartbeats(self) -> None:
        dues_s = self._until_end(every(1 / _HEARTBEAT_RATE))
        self.heartbeats_s = await ask_open_loop(dues_s, self._beat)

    async def _beat(self) -> None:
        self._waits.asked(_HEARTBEAT)
        stat = await self._control.set(_HEARTBEAT, b"alive")
        if self._version is not None and stat.version <= self._version:
            raise RuntimeError(f"heartbeat {stat.version} after {self._version}")
        self._version = stat.version

    async def _watch_loop(self) -> None:
        dues_s = self._until_end(every(_LAG_PERIOD_S))
        await pace(dues_s, lambda due_s: self.lags_s.append(now_s() - due_s))


async def _died(task: Storm) -> dict[str, Any]:
    waits = Waits()
    async with _broker(task, waits) as (store, control):
        beside, loader = _Beside(store, control, waits), Loader(store, waits)
        coming = iter(range(task.topics))

        async def some() -> None:
            for topic in coming:
                await loader.load(topic)

        gc.collect()
        gc.freeze()
        async with asyncio.TaskGroup() as around:
            around.create_task(beside.run(), name="beside the storm")
            began_s = now_s()
            async with asyncio.TaskGroup() as loads:
                with requests_as(RequestClass.BULK):
                    for number in range(task.at_once):
                        loads.create_task(some(), name=f"loads {number}")
            took_s = now_s() - began_s
            beside.end()
    if waits.unsent:
        raise RuntimeError(f"{waits.unsent} operations were never seen to leave")
    return {
        "queue_wait_p99_ms": quantile_ms(waits.of_urgent_s, 0.99),
        "bulk_queue_wait_p99_ms": quantile_ms(waits.waited_s[RequestClass.BULK], 0.99),
        "interactive_get_p99_ms": quantile_ms(beside.gets_s, 0.99),
        "control_p99_ms": quantile_ms(beside.heartbeats_s, 0.99),
        "loop_lag_p99_ms": quantile_ms(beside.lags_s, 0.99),
        "topics_s": round(task.topics / took_s, 1),
    }


def main() -> None:
    """Go through one death in this process."""
    answer(run_on_uvloop(_died(Storm(**task_of_this_process()))))


if __name__ == "__main__":
    main()
