"""Recipes on virtual time: clients that use them, servers and links that fail, and what must hold.

A seed is a schedule: all chance comes from it. Whoever holds something at a virtual moment is known
to the judges, which is more than any client can know.
"""

import asyncio
import contextlib
import random
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    BrokerCtlError,
    NoNode,
    StoreClosed,
    StoreError,
)
from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, VirtualLoop
from broker_ctl.tasks import TaskFaults, TaskScope
from broker_ctl.zookeeper import (
    Client,
    Counter,
    Held,
    Lock,
    LockingQueue,
    Queue,
    ReadWriteLock,
    Semaphore,
)

TICK_S: Final = 0.5
TIMEOUT_S: Final = 6.0
FAULTS_S: Final = 60.0
# Afterwards each call ends: sessions of the dead expire, and everybody in line is served.
REST_S: Final = 120.0
_CLIENTS: Final = 3
_WORKERS: Final = 2
_PERMITS: Final = 2
_LAGS_S: Final = (0.0, 0.0, 0.01, 0.2)
_AWAY_S: Final = (0.3, 2.0, 5.0, 9.0)


class Violation(AssertionError):
    """What must hold does not."""


@dataclass(frozen=True)
class Hold:
    """What a client holds, and in which session.

    ``forced`` has the sessions that were ended before their time, ``deleted`` the nodes that an
    operator deleted: no lease can know of either.
    """

    held: Held
    session_id: int
    forced: set[int]
    deleted: set[str]

    @property
    def is_proven(self) -> bool:
        """Whether its holder may act now, and nobody else may."""
        is_taken = self.session_id in self.forced or self.held.path in self.deleted
        return self.held.is_held and not is_taken


@dataclass
class Holders:
    """Who holds one thing, as the judge knows it.

    Attributes:
        most: how many there may be at a moment.
    """

    path: str
    most: int
    current: list[Hold] = field(default_factory=list)
    newest_token: int = 0

    @property
    def are_any(self) -> bool:
        """Whether somebody may act now."""
        return any(one.is_proven for one in self.current)

    def add(self, hold: Hold) -> None:
        """Somebody has it now: at this moment the others do not, or there are few enough."""
        token = hold.held.token
        self.current = [one for one in self.current if one.is_proven]
        if hold.is_proven:
            self.current.append(hold)
        if len(self.current) > self.most:
            tokens = [one.held.token for one in self.current]
            raise Violation(f"{self.path} is held {len(tokens)} times: tokens {tokens}")
        if self.most == 1 and token <= self.newest_token:
            raise Violation(f"{self.path}: token {token} after {self.newest_token}")
        self.newest_token = max(self.newest_token, token)

    def check_before_write(self, hold: Hold) -> None:
        """A holder that passes its check is the newest."""
        hold.held.check()
        if self.most == 1 and hold.is_proven and hold.held.token != self.newest_token:
            raise Violation(f"{self.path}: {hold.held.token} acts after {self.newest_token}")


@dataclass
class Items:
    """What became of the items of one queue."""

    put: set[bytes] = field(default_factory=set)
    perhaps_put: set[bytes] = field(default_factory=set)
    done: Tally[bytes] = field(default_factory=Tally)
    perhaps_done: set[bytes] = field(default_factory=set)


class World:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rules = EnsembleRules(
            servers=3, tick_s=TICK_S, ping_s=TIMEOUT_S / 3, lag=lambda: self.rng.choice(_LAGS_S)
        )
        self.ensemble = MemoryEnsemble(rules, self.rng)
        self.faults = TaskFaults()
        self.tasks = TaskScope("schedule")
        self.clients: list[Client | None] = [None] * _CLIENTS
        self.stores: list[MemoryStore | None] = [None] * _CLIENTS
        self.working: list[asyncio.Task[None]] = []
        self.calls: Tally[str] = Tally()
        self.is_over = False
        self._ids = count(1)
        self.locks = {path: Holders(path, 1) for path in ("/lock", "/other")}
        self.permits = Holders("/semaphore", _PERMITS)
        self.writers = Holders("/both", 1)
        self.readers: list[Hold] = []
        self.forced: set[int] = set()
        # Nodes that an operator deleted: their holders learn of it a moment after others have.
        self.deleted: set[str] = set()
        self.operator = MemoryStore(self.ensemble, session_timeout_s=10 * FAULTS_S)
        self.taken, self.claimed = Items(), Items()
        self.added, self.perhaps_added = 0, 0
        self.claims: defaultdict[bytes, int] = defaultdict(int)

    # Clients.

    def new_client(self, number: int) -> Client:
        """A client that is yet to be started, in the place of a former one."""

        async def transit() -> None:
            await asyncio.sleep(self.rng.uniform(0.001, 0.02))

        store = MemoryStore(
            self.ensemble,
            session_timeout_s=TIMEOUT_S,
            operation_timeout_s=TIMEOUT_S,
            transit=transit,
            clock=LoopClock(),
        )
        client = Client(
            store,
            tick_time_s=TICK_S,
            clock=LoopClock(),
            rng=self.rng,
            new_id=lambda: f"{next(self._ids):032x}",
        )
        self.clients[number], self.stores[number] = client, store
        return client

    async def live(self, number: int) -> None:
        """Use recipes, life after life of one client."""
        while not self.is_over:
            client = self.new_client(number)
            try:
                # Its process may die before there is a session.
                with contextlib.suppress(StoreClosed):
                    await client.start()
                async with TaskScope(f"client {number}") as scope:
                    works = [
                        scope.start(self.work(client), f"work {index}", is_joined=True)
                        for index in range(_WORKERS)
                    ]
                    self.working += works
                    await asyncio.wait(works)
                    self.working = [one for one in self.working if one not in works]
                    for one in works:
                        if not one.cancelled() and (error := one.exception()) is not None:
                            raise error
            finally:
                await client.close()

    async def work(self, client: Client) -> None:
        """Calls of one worker, until the client has ended or the faults are over."""
        verbs: list[Callable[[Client], Awaitable[None]]] = [
            self.lock, self.lock, self.semaphore, self.read, self.write,
            self.put, self.get, self.claim, self.add,
        ]  # fmt: skip
        while not (self.is_over or client.has_ended):
            verb = self.rng.choice(verbs)
            self.calls[verb.__name__] += 1
            with contextlib.suppress(AuthorityLost, StoreError, TimeoutError):
                await verb(client)
            await asyncio.sleep(self.rng.uniform(0, 0.3))

    @property
    def _limit_s(self) -> float | None:
        return self.rng.choice([None, None, 0.2, 3.0])

    def _held(self, client: Client, held: Held) -> Hold:
        return Hold(held, client.session_id, self.forced, self.deleted)

    async def _act(self, client: Client, held: Held, holders: Holders) -> None:
        """Act a few times while it is held."""
        hold = self._held(client, held)
        holders.add(hold)
        async with held:
            for _ in range(self.rng.randrange(4)):
                holders.check_before_write(hold)
                await asyncio.sleep(self.rng.uniform(0, 1.5))

    # What workers do.

    async def lock(self, client: Client) -> None:
        """An exclusive lock."""
        path = self.rng.choice([*self.locks])
        held = await Lock(client, path).acquire(self._limit_s)
        await self._act(client, held, self.locks[path])

    async def semaphore(self, client: Client) -> None:
        """One of a few permits."""
        held = await Semaphore(client, self.permits.path, _PERMITS).acquire(self._limit_s)
        await self._act(client, held, self.permits)

    async def write(self, client: Client) -> None:
        """Exclusive, of readers too."""
        held = await ReadWriteLock(client, self.writers.path).write.acquire(self._limit_s)
        if self._held(client, held).is_proven and any(one.is_proven for one in self.readers):
            raise Violation(f"{held.path} is written to while it is read")
        await self._act(client, held, self.writers)

    async def read(self, client: Client) -> None:
        """Shared with readers."""
        held = await ReadWriteLock(client, self.writers.path).read.acquire(self._limit_s)
        hold = self._held(client, held)
        if hold.is_proven and self.writers.are_any:
            raise Violation(f"{held.path} is read while it is written to")
        self.readers = [*(one for one in self.readers if one.is_proven), hold]
        async with held:
            await asyncio.sleep(self.rng.uniform(0, 1.5))

    async def put(self, client: Client) -> None:
        """An item for each of the queues."""
        for queue, items in (
            (Queue(client, "/queue"), self.taken),
            (LockingQueue(client, "/locking"), self.claimed),
        ):
            item = b"%d" % next(self._ids)
            items.perhaps_put.add(item)
            try:
                await queue.put(item, self.rng.choice([0, 100]))
            except (Ambiguous, StoreClosed):
                raise
            except StoreError:
                # It was not done.
                items.perhaps_put.discard(item)
                raise
            items.put.add(item)

    async def get(self, client: Client) -> None:
        """An item, which is gone then."""
        item = await Queue(client, "/queue").get(0.5)
        self.taken.done[item] += 1
        if self.taken.done[item] > 1:
            raise Violation(f"item {item!r} was taken twice")

    async def claim(self, client: Client) -> None:
        """An item, which is held until it is done."""
        async with await LockingQueue(client, "/locking").get(0.5) as claim:
            item = claim.data
            if claim.held.token <= self.claims[item]:
                raise Violation(f"item {item!r}: a claim with an older token")
            self.claims[item] = claim.held.token
            if self.rng.random() < 0.3:
                return
            await asyncio.sleep(self.rng.uniform(0, 1.0))
            self.claimed.perhaps_done.add(item)
            await claim.done()
            self.claimed.done[item] += 1
            if self.claimed.done[item] > 1:
                raise Violation(f"item {item!r} was done twice")

    async def add(self, client: Client) -> None:
        """To a number."""
        change = self.rng.randrange(1, 10)
        self.perhaps_added += change
        try:
            await Counter(client, "/counter").add(change)
        except (Ambiguous, StoreClosed):
            raise
        except BrokerCtlError:
            self.perhaps_added -= change
            raise
        self.added += change

    # What goes wrong.

    async def fail(self) -> None:
        """Faults, one after another."""
        verbs: list[Callable[[int], Awaitable[None]]] = [
            self.expire, self.expire, self.drop, self.cut, self.elect, self.slow_disks,
            self.kill, self.cancel, self.delete,
        ]  # fmt: skip
        loop = asyncio.get_running_loop()
        until_s = loop.time() + FAULTS_S
        while loop.time() < until_s:
            await asyncio.sleep(self.rng.uniform(0.2, 4.0))
            verb = self.rng.choice(verbs)
            self.calls[verb.__name__] += 1
            await verb(self.rng.randrange(_CLIENTS))
        self.is_over = True

    async def expire(self, number: int) -> None:
        """The servers end a session."""
        store = self.stores[number]
        if store is not None and store.session_id in self.ensemble.session_ids:
            self.forced.add(store.session_id)
            self.ensemble.expire(store.session_id)

    async def drop(self, number: int) -> None:
        """A connection is lost."""
        store = self.stores[number]
        if store is not None and store.session_id:
            self.ensemble.drop(store.session_id, "reset")

    async def cut(self, number: int) -> None:
        """A client reaches nobody for a while; it may be longer than its session lives."""
        store = self.stores[number]
        if store is None:
            return
        store.disconnect()
        for_s = self.rng.choice(_AWAY_S)
        self.tasks.start(self._reconnect(store, for_s), "reconnect")

    async def _reconnect(self, store: MemoryStore, for_s: float) -> None:
        await asyncio.sleep(for_s)
        store.reconnect()

    async def elect(self, _: int) -> None:
        """The servers elect another leader."""
        self.ensemble.change_leader(self.rng.choice(_AWAY_S[:2]))

    async def slow_disks(self, number: int) -> None:
        """Proposals wait, while a client moves from server to server."""
        self.ensemble.proposals.hold()
        for _ in range(self.rng.randrange(1, 4)):
            await asyncio.sleep(self.rng.uniform(0.02, 0.3))
            await self.drop(number)
        await asyncio.sleep(self.rng.uniform(0.1, 1.0))
        self.ensemble.proposals.release()

    async def kill(self, number: int) -> None:
        """A process dies: its session is left to the servers."""
        client, store = self.clients[number], self.stores[number]
        if client is None or store is None:
            return
        await store.close(end_session=False)

    async def cancel(self, _: int) -> None:
        """A caller gives up at whichever step it is; its worker ends, and so does its client."""
        if self.working:
            self.rng.choice(self.working).cancel()

    async def delete(self, _: int) -> None:
        """An operator deletes the node of somebody in line."""
        path = self.rng.choice([*self.locks, self.permits.path, self.writers.path])
        names = await self.operator.children(path)
        if names:
            node = f"{path}/{self.rng.choice(names)}"
            self.deleted.add(node)
            with contextlib.suppress(NoNode):
                await self.operator.delete(node)


async def _play(world: World) -> None:
    async with world.tasks:
        living = [
            world.tasks.start(world.live(number), f"client {number}", is_joined=True)
            for number in range(_CLIENTS)
        ]
        failing = world.tasks.start(world.fail(), "faults", is_joined=True)
        # A client may wait for ever, and that is what is judged: so each wait here has a limit.
        ended, waiting = await asyncio.wait(
            {failing, *living}, timeout=2 * FAULTS_S + REST_S, return_when=asyncio.FIRST_EXCEPTION
        )
        for one in ended:
            one.result()
        if waiting:
            raise Violation(f"{len(waiting)} clients wait {REST_S:g} s after the last fault")


async def _settle(world: World) -> None:
    """What is left: nobody in line, every item once, every addition."""
    await asyncio.sleep(3 * TIMEOUT_S)
    client = world.new_client(0)
    async with client:
        for path in (*world.locks, world.permits.path, world.writers.path, "/locking/taken"):
            if left := await client.children(path):
                raise Violation(f"{path}: {left} are left")
        queue = LockingQueue(client, "/locking")
        while await queue.size():
            async with await queue.get(TIMEOUT_S) as claim:
                await claim.done()
                world.claimed.done[claim.data] += 1
        for item, times in world.claimed.done.items():
            if times > 1:
                raise Violation(f"item {item!r} was done {times} times")
        done = world.claimed.done.keys() | world.claimed.perhaps_done
        if lost := world.claimed.put - done:
            raise Violation(f"items {lost} are lost")
        value = await Counter(client, "/counter").value()
        if not world.added <= value <= world.perhaps_added:
            raise Violation(f"{value} is not {world.added} to {world.perhaps_added}")


async def _run(seed: int) -> World:
    world = World(seed)
    with world.faults.collecting():
        await world.operator.start()
        await world.operator.wait_connected()
        await _play(world)
        await _settle(world)
        await world.operator.close()
    if world.faults.failures:
        raise Violation(f"{world.faults.failures} background tasks have failed; see the log")
    return world


def run(seed: int) -> World:
    """Play one schedule.

    Raises:
        Violation: what must hold does not.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_run(seed))
