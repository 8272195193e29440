"""Operations a second with many outstanding: the store and its peers in turn, round by round.

In a round all clients talk to the same server, alone, each in a fresh process, and who goes first
changes with every round; over the rounds each server has its turn, as the leader answers writes
sooner than a follower, and clients of a cluster meet both. What counts as done is what the tree of
that server has counted.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.store import peers
from tests.benchmarks.store.peers import CLIENTS, Throughput
from tests.benchmarks.store.processes import measured_apart
from tests.benchmarks.store.tree import counted, keys, lay, remove, value

KINDS: Final = ("get", "set", "create")
_LAID: Final = "throughput"
_WARM: Final = "warm"
_MADE: Final = "made"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is asked for.

    Attributes:
        count: operations of a run, each on a node of its own.
        warm_count: operations before it.
        outstanding: requests without an answer.
        rounds: a multiple of the servers.
    """

    count: int = 10_000
    warm_count: int = 3_000
    outstanding: int = 2_000
    rounds: int = 6


QUICK: Final = Extent(count=400, warm_count=100, outstanding=100, rounds=1)

Rates = dict[str, dict[str, list[float]]]


class ThroughputRounds:
    """The rounds of one run of the benchmark; ``ports`` are those of the servers."""

    def __init__(self, store: ZooKeeperStore, ports: Sequence[int], extent: Extent) -> None:
        self._store = store
        self._ports = ports
        self._extent = extent
        self._rates: Rates = {kind: defaultdict(list) for kind in KINDS}

    async def run(self) -> Rates:
        """Operations a second of every round, by kind and client."""
        extent = self._extent
        for top, count in ((_LAID, extent.count), (_WARM, extent.warm_count)):
            await self._store.create(f"/{top}")
            await lay(self._store, ((p, value(i)) for i, p in enumerate(keys(f"/{top}", count))))
        for number in range(extent.rounds):
            for kind in KINDS:
                for place in range(len(CLIENTS)):
                    client = CLIENTS[(number + place) % len(CLIENTS)]
                    rate = await self._one(kind, client, self._ports[number % len(self._ports)])
                    self._rates[kind][client].append(rate)
                    report_progress(f"throughput round {number + 1}: {kind} {client} {rate:,.0f}/s")
        for top, count in ((_LAID, extent.count), (_WARM, extent.warm_count)):
            await remove(self._store, [*keys(f"/{top}", count), f"/{top}"])
        return self._rates

    async def _one(self, kind: str, client: str, port: int) -> float:
        extent, is_create = self._extent, kind == "create"
        task = Throughput(
            client=client,
            kind=kind,
            host=f"{LOOPBACK}:{port}",
            root=f"/{_MADE}" if is_create else f"/{_LAID}",
            warm_root=f"/{_MADE}-{_WARM}" if is_create else f"/{_WARM}",
            count=extent.count,
            warm_count=extent.warm_count,
            outstanding=extent.outstanding,
        )
        if is_create:
            await self._store.create(task.root)
            await self._store.create(task.warm_root)
        versions = await self._versions(task)
        top = task.root[1:]
        before = await counted(port, top)
        found = await measured_apart(peers.__name__, asdict(task))
        done = await counted(port, top) - before
        grown = await self._versions(task) - versions
        n = extent.count
        if (done.reads, done.writes, grown) != ((n, 0, 0) if kind == "get" else (0, n, n)):
            raise RuntimeError(f"{task}: {done}, and {grown} nodes were changed")
        if is_create:
            roots = ((task.root, task.count), (task.warm_root, task.warm_count))
            for root, count in roots:
                await remove(self._store, [*keys(root, count), root])
        return (done.reads if kind == "get" else done.writes) / float(found["took_s"])

    async def _versions(self, task: Throughput) -> int:
        """Of a set: how often the nodes have been written so far; of a create: how many exist."""
        if task.kind == "get":
            return 0
        nodes = await self._store.get_many(keys(task.root, task.count))
        if task.kind == "create":
            return sum(node is not None for node in nodes)
        return sum(node.stat.version for node in nodes if node is not None)


def summary(rates: Rates) -> dict[str, Any]:
    """Medians, and beside them the slowest and the fastest round."""
    return {
        "throughput_ops_s": {
            kind: {client: round(statistics.median(rates[kind][client])) for client in CLIENTS}
            for kind in KINDS
        },
        "throughput_range_ops_s": {
            kind: {
                client: [round(min(rates[kind][client])), round(max(rates[kind][client]))]
                for client in CLIENTS
            }
            for kind in KINDS
        },
    }
