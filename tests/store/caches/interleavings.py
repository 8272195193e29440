"""Reads, writes, lost connections and time in any order, and the invariants of every order.

An observer that is never cut records what the nodes were at each zxid. A read that was begun
after its client had heard of zxid Z (by an event, a write of its own, or an earlier read) must
answer with something that was so at Z or later.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from broker_ctl.errors import NodeExists, NoNode, StoreError
from broker_ctl.lab.time import ManualClock
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.interface import Change, MetadataStore, Notification, Versioned
from broker_ctl.store.watched_cache import CacheRules
from tests.contract.backends import Backend

ROOT: Final = "/c"
PATHS: Final = ("/c/a", "/c/b", "/c/a/x")

Answer: TypeAlias = int | None


class Action(Enum):
    READ = auto()
    PUT = auto()
    DELETE = auto()
    OWN_PUT = auto()
    OWN_DELETE = auto()
    CUT = auto()
    EXPIRE = auto()
    TURN = auto()
    AGE = auto()


@dataclass(frozen=True)
class Step:
    action: Action
    path: str


# Mostly reads and turns of the loop: a node that is never read is never cached.
MIX: Final = (*[Action.READ] * 7, *Action, *Action, *[Action.TURN] * 5)
EVERY_PATH: Final = (ROOT, *PATHS)


def random_steps(rng: random.Random, count: int) -> list[Step]:
    """Seeded, for a store that is too slow for hypothesis."""
    return [Step(rng.choice(MIX), rng.choice(EVERY_PATH)) for _ in range(count)]


@dataclass(frozen=True)
class Read:
    """An answer, with its place among begins and ends, and the newest zxid known before it."""

    path: str
    answer: Answer
    number_begun: int
    number_ended: int
    floor: int


class History:
    """The states of the nodes by zxid, from the notifications of one observer."""

    def __init__(self) -> None:
        self._notifications: list[Notification] = []

    def heard(self, notification: Notification) -> None:
        self._notifications.append(notification)

    def states(self, path: str) -> Iterator[tuple[int, Answer]]:
        """The values of the node, each with the zxid since which it was right."""
        yield 0, None
        for notification in self._notifications:
            if notification.path == path:
                is_deleted = notification.change is Change.DELETED
                yield notification.zxid, None if is_deleted else notification.zxid


class Interleaving:
    """One run of steps on one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._clock = ManualClock()
        self._history = History()
        self._floors: dict[str, int] = {}
        self._number = 0
        self.reads: list[Read] = []
        # For each read, the zxid since which its answer was right.
        self._since: list[int] = []

    async def run(self, steps: Sequence[Step]) -> None:
        self._observer = await self._backend.open(10, 10)
        self._other = await self._backend.open(10, 10)
        self._store = await self._backend.open(10, 10)
        await self._observer.watch(ROOT, self._history.heard)
        await self._observer.create(ROOT)
        rules, roots = CacheRules(refresh_s=10, expiry_s=20), (ROOT,)
        self._cache = ValueCache(
            self._store, roots, _mzxid_of, self._clock, rules, rng=random.Random(1)
        )
        await self._cache.start()
        await self._store.watch(ROOT, self._heard)
        async with asyncio.timeout(60):
            async with asyncio.TaskGroup() as tasks:
                for step in steps:
                    await self._take(step, tasks)
            await self._settle()
        try:
            await self._check()
        finally:
            await self._cache.close()

    async def _take(self, step: Step, tasks: asyncio.TaskGroup) -> None:
        if step.action is Action.READ:
            tasks.create_task(self._read(step.path), name="read")
        elif step.action in {Action.PUT, Action.DELETE}:
            tasks.create_task(self._write(self._other, step), name="write")
        elif step.action in {Action.OWN_PUT, Action.OWN_DELETE}:
            tasks.create_task(self._own_write(step), name="own write")
        elif step.action is Action.CUT:
            self._backend.cut(self._store)
        elif step.action is Action.EXPIRE:
            if self._store.session_id:
                await self._backend.expire(self._store)
        elif step.action is Action.TURN:
            for _ in range(3):
                await asyncio.sleep(0)
        else:
            self._clock.time_s += 7

    # What clients do.

    async def _read(self, path: str) -> None:
        floor, begun = self._floors.get(path, 0), self._next()
        # The session may end meanwhile, and with it the connection that was to carry the read.
        with suppress(StoreError):
            answer = await self._cache.get(path)
            self.reads.append(Read(path, answer, begun, self._next(), floor))

    async def _write(self, store: MetadataStore, step: Step) -> int:
        """The zxid of the write; 0 where nothing was written, or it is not known."""
        # Quicker clients, a missing parent, children; a lost session, or a reply lost for good.
        with suppress(StoreError):
            if step.action in {Action.DELETE, Action.OWN_DELETE}:
                await store.delete(step.path)
                return 0
            try:
                return (await store.set(step.path, b"")).mzxid
            except NoNode:
                with suppress(NodeExists):
                    return (await store.create(step.path)).stat.mzxid
        return 0

    async def _own_write(self, step: Step) -> None:
        with self._cache.writing(step.path):
            zxid = await self._write(self._store, step)
        self._raise_floor(step.path, zxid)

    def _heard(self, notification: Notification) -> None:
        """The cache has had the notification before."""
        self._raise_floor(notification.path, notification.zxid)

    def _raise_floor(self, path: str, zxid: int) -> None:
        self._floors[path] = max(self._floors.get(path, 0), zxid)

    def _next(self) -> int:
        self._number += 1
        return self._number

    # Invariants.

    async def _settle(self) -> None:
        """Wait until all are connected, and have the events of all writes."""
        await self._store.wait_connected()
        for store in (self._other, self._observer, self._store):
            await store.sync("/")

    async def _check(self) -> None:
        """No answer is older than an earlier one, and each cached value is the current one."""
        self._check_order()
        for path in EVERY_PATH:
            node = await self._observer.get(path)
            truth = node and node.stat.mzxid
            entry = self._cache._entries.find(path)
            assert entry is None or entry.answer == truth, (path, entry, truth)
            assert await self._cache.get(path) == truth
        assert len(self._cache) == len(EVERY_PATH)

    def _check_order(self) -> None:
        # In the order of their ends: each read raises the floor of those that began after it.
        for index, read in enumerate(self.reads):
            earlier = [
                self._since[before]
                for before, other in enumerate(self.reads[:index])
                if other.path == read.path and other.number_ended < read.number_begun
            ]
            self._since.append(self._first(read, max([read.floor, *earlier])))

    def _first(self, read: Read, floor: int) -> int:
        """The zxid since when the answer was right, of the times that end after the floor."""
        states = list(self._history.states(read.path))
        ends = [since for since, _ in states[1:]] + [1 << 63]
        for (since, answer), end in zip(states, ends, strict=True):
            if answer == read.answer and end > floor:
                return since
        raise AssertionError(f"{read} was not so at {floor} or later: {states}")


def _mzxid_of(node: Versioned) -> int:
    return node.stat.mzxid
