"""What the servers give to a client that has no part in a storm.

It has a process and a connection of its own: none of our queues, batches or turns of the loop are
before it. How long it waits is the servers' and the machine's doing, so that no arrangement inside
the store can give its callers less while the storm is as heavy.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from broker_ctl.errors import NoNode
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.pacing import arrivals, ask_open_loop, every
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)
from tests.benchmarks.store.tree import direct_store


@dataclass(frozen=True, slots=True)
class Watch:
    """How a bystander spends its time.

    Attributes:
        host: the server that it talks to.
        reads: nodes that it reads, ``read_rate`` a second.
        writes: the node that it writes, ``write_rate`` a second; it goes when all is over.
    """

    host: str
    reads: Sequence[str]
    writes: str
    read_rate: float
    write_rate: float


@asynccontextmanager
async def standing_by(store: ZooKeeperStore, watch: Watch) -> AsyncIterator[dict[str, Any]]:
    """A bystander for as long as the block takes; its figures are there when it has ended."""
    found: dict[str, Any] = {}
    await store.create(watch.writes)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(measured_apart(__name__, asdict(watch)), name="bystander")
        yield found
        await store.delete(watch.writes)
        found |= await task


async def _measured(watch: Watch) -> Mapping[str, Any]:
    rng, over = random.Random(1), asyncio.Event()
    async with direct_store(watch.host) as store:

        async def read() -> None:
            if await store.get(rng.choice(watch.reads)) is None:
                raise RuntimeError("a node of the foreground is gone")

        async def write() -> None:
            try:
                await store.set(watch.writes, b"here")
            except NoNode:
                over.set()

        def until_over(dues_s: Iterator[float]) -> Iterator[float]:
            return takewhile(lambda _: not over.is_set(), dues_s)

        async with asyncio.TaskGroup() as group:
            gets = group.create_task(
                ask_open_loop(until_over(arrivals(watch.read_rate, rng)), read), name="gets"
            )
            sets = group.create_task(
                ask_open_loop(until_over(every(1 / watch.write_rate)), write), name="sets"
            )
    return {
        "get_p99_ms": quantile_ms(gets.result(), 0.99),
        "set_p99_ms": quantile_ms(sets.result(), 0.99),
    }


def main() -> None:
    """Stand by in this process."""
    answer(run_on_uvloop(_measured(Watch(**task_of_this_process()))))


if __name__ == "__main__":
    main()
