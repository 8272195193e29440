"""The clients under comparison: one kind of request, a number of them outstanding, for one run.

Run in a process of its own. The requests are timed from the first to the last answer; what was
answered is looked at afterwards.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiozk
from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult

from broker_ctl.clock import SystemClock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from tests.benchmarks.store.pacing import now_s
from tests.benchmarks.store.processes import answer, run_on_uvloop, task_of_this_process
from tests.benchmarks.store.raw import OPERATIONS, RawClient, frames
from tests.benchmarks.store.tree import direct_store, keys, value

Ask = Callable[[str, bytes], Awaitable[Any]]
AskSoon = Callable[[str, bytes], IAsyncResult]


@dataclass(frozen=True, slots=True)
class Throughput:
    """One run of one client.

    Attributes:
        client: which.
        kind: get, set or create.
        host: ``host:port`` of the one server that all clients of a round talk to.
        root, warm_root: where the nodes are, and where those to warm up with.
        count, warm_count: how many there are.
        outstanding: requests without an answer.
    """

    client: str
    kind: str
    host: str
    root: str
    warm_root: str
    count: int
    warm_count: int
    outstanding: int

    @property
    def work(self) -> list[tuple[str, bytes]]:
        """What is measured."""
        return [(path, value(i)) for i, path in enumerate(keys(self.root, self.count))]

    @property
    def warming(self) -> list[tuple[str, bytes]]:
        """What comes first: sockets, code and estimates of sizes are warm in any real process."""
        return [(path, value(i)) for i, path in enumerate(keys(self.warm_root, self.warm_count))]


async def _all_of(ask: Ask, work: Sequence[tuple[str, bytes]], outstanding: int) -> list[Any]:
    answers: list[Any] = [None] * len(work)
    coming = iter(enumerate(work))

    async def some() -> None:
        for index, (path, data) in coming:
            answers[index] = await ask(path, data)

    async with asyncio.TaskGroup() as group:
        for _ in range(outstanding):
            group.create_task(some())
    return answers


async def _timed(ask: Ask, task: Throughput) -> tuple[float, list[Any]]:
    await _all_of(ask, task.warming, task.outstanding)
    work = task.work
    gc.collect()
    gc.freeze()
    began_s = now_s()
    answers = await _all_of(ask, work, task.outstanding)
    return now_s() - began_s, answers


async def _by_store(task: Throughput) -> dict[str, Any]:
    async with direct_store(task.host) as direct:
        store = BatchedStore(direct, BatchRules(), SystemClock(), StoreInstruments())
        asks: dict[str, Ask] = {
            "get": lambda path, _: store.get(path),
            "set": store.set,
            "create": store.create,
        }
        took_s, answers = await _timed(asks[task.kind], task)
        await store.close()
    return _figures(task, took_s, [found.data for found in answers] if task.kind == "get" else [])


async def _by_aiozk(task: Throughput) -> dict[str, Any]:
    client = aiozk.ZKClient(task.host)
    await client.start()
    asks: dict[str, Ask] = {
        "get": lambda path, _: client.get(path),
        "set": lambda path, data: client.set(path, data, -1),
        "create": client.create,
    }
    took_s, answers = await _timed(asks[task.kind], task)
    await client.close()
    return _figures(task, took_s, [found[0] for found in answers] if task.kind == "get" else [])


def _all_of_kazoo(ask: AskSoon, work: Sequence[tuple[str, bytes]], outstanding: int) -> list[Any]:
    """A sliding window: answers come in order, so to wait for the oldest is to wait for one.

    Of the ways that were tried (a semaphore released by callbacks, each answer asking for the next,
    whole waves) it is the fastest: no thread is woken for an answer that is there already.
    """
    answers: list[Any] = []
    sent: deque[IAsyncResult] = deque()
    for path, data in work:
        if len(sent) == outstanding:
            answers.append(sent.popleft().get())
        sent.append(ask(path, data))
    answers += [one.get() for one in sent]
    return answers


def _by_kazoo(task: Throughput) -> dict[str, Any]:
    client = KazooClient(task.host)
    client.start()
    asks: dict[str, AskSoon] = {
        "get": lambda path, _: client.get_async(path),
        "set": client.set_async,
        "create": client.create_async,
    }
    ask = asks[task.kind]
    _all_of_kazoo(ask, task.warming, task.outstanding)
    work = task.work
    gc.collect()
    gc.freeze()
    began_s = now_s()
    answers = _all_of_kazoo(ask, work, task.outstanding)
    took_s = now_s() - began_s
    client.stop()
    client.close()
    return _figures(task, took_s, [found[0] for found in answers] if task.kind == "get" else [])


def _figures(task: Throughput, took_s: float, found: Sequence[bytes | None]) -> dict[str, Any]:
    if task.kind == "get":
        wrong = sum(data != expected for data, (_, expected) in zip(found, task.work, strict=True))
        if wrong:
            raise RuntimeError(f"{task.client}: {wrong} of {task.count} values are wrong")
    return {"took_s": took_s}


def _by_raw(task: Throughput) -> dict[str, Any]:
    host, _, port = task.host.rpartition(":")
    client = RawClient(host, int(port))
    in_flight = max(1, task.outstanding // OPERATIONS)
    client.exchange(frames(task.kind, task.warming), in_flight)
    requests = frames(task.kind, task.work)
    gc.collect()
    gc.freeze()
    took_s = client.exchange(requests, in_flight)
    client.close()
    return {"took_s": took_s}


_ON_THE_LOOP: Final = {"store": _by_store, "aiozk": _by_aiozk}
_BLOCKING: Final = {"kazoo": _by_kazoo, "raw": _by_raw}
CLIENTS: Final = ("store", "raw", "aiozk", "kazoo")


def main() -> None:
    """Measure one client."""
    task = Throughput(**task_of_this_process())
    if task.client in _BLOCKING:
        answer(_BLOCKING[task.client](task))
    else:
        answer(run_on_uvloop(_ON_THE_LOOP[task.client](task)))


if __name__ == "__main__":
    main()
