"""Readers of caches, writers, cuts and time in any order, and what no order may lead to.

What the nodes were at each zxid is told by an observer that is never cut. A read that was begun
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
from broker_ctl.store.caches.children import ChildrenCache
from broker_ctl.store.caches.existence import ExistenceCache
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import Change, MetadataStore, Notification, Versioned
from broker_ctl.store.path_rules import name_of, parent_of
from tests.contract.backends import Backend
from tests.support.manual_clock import ManualClock

ROOT: Final = "/c"
PATHS: Final = ("/c/a", "/c/b", "/c/a/x")

Answer: TypeAlias = int | bool | tuple[str, ...] | None


class Action(Enum):
    READ_VALUE = auto()
    READ_CHILDREN = auto()
    READ_EXISTENCE = auto()
    PUT = auto()
    DELETE = auto()
    OWN_PUT = auto()
    OWN_DELETE = auto()
    CUT = auto()
    EXPIRE = auto()
    TURN = auto()
    AGE = auto()


READS: Final = frozenset({Action.READ_VALUE, Action.READ_CHILDREN, Action.READ_EXISTENCE})


@dataclass(frozen=True)
class Step:
    action: Action
    path: str


# Reads and turns are most of it: what is never read is never remembered.
MIX: Final = (*sorted(READS, key=lambda action: action.value), *Action, *Action, *[Action.TURN] * 5)
EVERY_PATH: Final = (ROOT, *PATHS)


def random_steps(draws: random.Random, count: int) -> list[Step]:
    """Seeded, for a store that is too slow for hypothesis."""
    return [Step(draws.choice(MIX), draws.choice(EVERY_PATH)) for _ in range(count)]


@dataclass(frozen=True)
class Read:
    """An answer: its place in the order of begins and ends, and what was heard of before it."""

    action: Action
    path: str
    answer: Answer
    number_begun: int
    number_ended: int
    floor: int


class History:
    """What there was, by zxid: told by one observer."""

    def __init__(self) -> None:
        self._notifications: list[Notification] = []

    def heard(self, notification: Notification) -> None:
        self._notifications.append(notification)

    def states(self, action: Action, path: str) -> Iterator[tuple[int, Answer]]:
        """Answers to the question with the zxids from which on they were right."""
        names: set[str] = set()
        yield 0, {Action.READ_VALUE: None, Action.READ_EXISTENCE: False}.get(action, ())
        for told in self._notifications:
            is_there = told.change is not Change.DELETED
            if action is Action.READ_CHILDREN:
                if parent_of(told.path) == path and told.change is not Change.MODIFIED:
                    (names.add if is_there else names.discard)(name_of(told.path))
                    yield told.zxid, tuple(sorted(names))
            elif told.path == path:
                is_value = action is Action.READ_VALUE
                yield told.zxid, (told.zxid if is_there else None) if is_value else is_there


class Interleaving:
    """One run of steps on one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._clock = ManualClock()
        self._history = History()
        self._floors: dict[str, int] = {}
        self._number = 0
        self.reads: list[Read] = []
        # For each of them, since when its answer was right.
        self._since: list[int] = []

    async def run(self, steps: Sequence[Step]) -> None:
        self._observer = await self._backend.open(10, 10)
        self._other = await self._backend.open(10, 10)
        self._store = await self._backend.open(10, 10)
        await self._observer.watch(ROOT, self._history.heard)
        await self._observer.create(ROOT)
        rules, roots = CacheRules(refresh_s=10, expiry_s=20), (ROOT,)
        self._values = ValueCache(self._store, roots, _mzxid_of, self._clock, rules)
        self._children = ChildrenCache(self._store, roots, self._clock, rules)
        self._existence = ExistenceCache(self._store, roots, self._clock, rules)
        caches = (self._values, self._children, self._existence)
        for cache in caches:
            await cache.start()
        await self._store.watch(ROOT, self._heard)
        async with asyncio.timeout(60):
            async with asyncio.TaskGroup() as tasks:
                for step in steps:
                    await self._take(step, tasks)
            await self._settle()
        try:
            await self._check()
        finally:
            for cache in caches:
                await cache.close()

    async def _take(self, step: Step, tasks: asyncio.TaskGroup) -> None:
        if step.action in READS:
            tasks.create_task(self._read(step.action, step.path), name="read")
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

    async def _ask(self, action: Action, path: str) -> Answer:
        if action is Action.READ_VALUE:
            return await self._values.get(path)
        if action is Action.READ_CHILDREN:
            return await self._children.get(path)
        return await self._existence.get(path)

    async def _read(self, action: Action, path: str) -> None:
        floor, begun = self._floor(action, path), self._next()
        # The session may end on the way, and with it the connection that was to carry the read.
        with suppress(StoreError):
            answer = await self._ask(action, path)
            self.reads.append(Read(action, path, answer, begun, self._next(), floor))

    async def _write(self, store: MetadataStore, step: Step) -> int:
        """The zxid of what was done; 0 where nothing was, or it is not known."""
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
        with (
            self._values.writing(step.path),
            self._children.writing(step.path),
            self._existence.writing(step.path),
        ):
            zxid = await self._write(self._store, step)
        self._raise_floor(step.path, zxid)

    def _heard(self, notification: Notification) -> None:
        """Told after the caches were."""
        self._raise_floor(notification.path, notification.zxid)
        if notification.change is not Change.MODIFIED:
            self._raise_floor(f"children of {parent_of(notification.path)}", notification.zxid)

    def _raise_floor(self, key: str, zxid: int) -> None:
        self._floors[key] = max(self._floors.get(key, 0), zxid)

    def _floor(self, action: Action, path: str) -> int:
        key = f"children of {path}" if action is Action.READ_CHILDREN else path
        return self._floors.get(key, 0)

    def _next(self) -> int:
        self._number += 1
        return self._number

    # What must be so.

    async def _settle(self) -> None:
        """All is connected, and has heard of all that was done."""
        await self._store.wait_connected()
        for store in (self._other, self._observer, self._store):
            await store.sync("/")

    async def _check(self) -> None:
        """Nothing went back, and what is remembered is so."""
        self._check_order()
        asked = 0
        for path in EVERY_PATH:
            node = await self._observer.get(path)
            names = tuple(await self._observer.children(path))
            for cache, truth in (
                (self._values, node and node.stat.mzxid),
                (self._children, names),
                (self._existence, node is not None),
            ):
                entry = cache._entries.find(path)
                assert entry is None or entry.answer == truth, (path, entry, truth)
            assert await self._values.get(path) == (node and node.stat.mzxid)
            assert await self._children.get(path) == names
            assert await self._existence.get(path) is (node is not None)
            asked += 1
        assert len(self._values) == len(self._children) == len(self._existence) == asked

    def _check_order(self) -> None:
        # In the order of their ends: each read raises the floor of those that began after it.
        for index, read in enumerate(self.reads):
            earlier = [
                self._since[before]
                for before, other in enumerate(self.reads[:index])
                if (other.action, other.path) == (read.action, read.path)
                and other.number_ended < read.number_begun
            ]
            self._since.append(self._first(read, max([read.floor, *earlier])))

    def _first(self, read: Read, floor: int) -> int:
        """The zxid since when the answer was right, of the times that end after the floor."""
        states = list(self._history.states(read.action, read.path))
        ends = [since for since, _ in states[1:]] + [1 << 63]
        for (since, answer), end in zip(states, ends, strict=True):
            if answer == read.answer and end > floor:
                return since
        raise AssertionError(f"{read} was not so at {floor} or later: {states}")


def _mzxid_of(node: Versioned) -> int:
    return node.stat.mzxid
