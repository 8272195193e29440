"""What clients and operators do: lookups, orders, and writes of their own that are counted."""

import asyncio
import math
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from broker_ctl.broker.lookup.lookup import Answer, Connect, Lookup, Redirect
from broker_ctl.core.model.names import Topic
from broker_ctl.errors import BadVersion, BrokerCtlError, MultiFailed, NodeExists, TenantExists
from broker_ctl.store.interface import Create, CreateMode, Delete, SetData, Versioned
from broker_ctl.store.records.policies import TenantInfo
from tests.deterministic.judges.answers import ReadyAnswersJudge
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import DaemonProcess
from tests.deterministic.world.topics import NAMESPACE, topics, traffic_of
from tests.linearizability.checker import Operation

_HOPS: Final = 4
_ANSWER_S: Final = 40.0
_COUNTERS: Final = "/counters"
_MOST_BUNDLES: Final = 16
_AGAIN_S: Final = 0.2
TENANT: Final = TenantInfo(allowed_clusters=("c",))


class Clients:
    """All that is asked of daemons from outside.

    Attributes:
        writes: of nodes by version, by path.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rng = cluster.draws
        self._ready_answers = ReadyAnswersJudge(cluster.observer)
        self._written: dict[str, set[int]] = {}
        self.writes: dict[str, list[Operation]] = {}
        self.outcomes: dict[str, int] = {}

    async def ask(self, what: str, work: Awaitable[object]) -> None:
        """Wait for an answer, whatever it is, but not for ever (I10)."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                await work
                outcome = "done"
        except TimeoutError:
            self._cluster.observer.complain(f"I10: {what} has no end", self._cluster.turns.now_s)
            outcome = "no answer"
        except BrokerCtlError as error:
            outcome = type(error).__name__
        self._cluster.say(f"{what}: {outcome}")
        key = f"{what.partition(' ')[0]} {outcome}"
        self.outcomes[key] = self.outcomes.get(key, 0) + 1

    def pick(self) -> DaemonProcess | None:
        """A daemon that answers, or one that is stopped: nobody knows before asking."""
        running = self._cluster.running
        return self._rng.choice(running) if running else None

    # Clients.

    async def look_up(self, topic: Topic, daemon: DaemonProcess) -> None:
        """As a client does: follow redirects to the broker that serves."""
        is_authoritative = False
        for _ in range(_HOPS):
            if daemon.dependencies is None:
                return
            lookup = daemon.dependencies.lookup
            answer = await daemon.call(self._find(lookup, topic, is_authoritative))
            if isinstance(answer, Connect):
                self._note_known(topic, daemon, answer)
                return
            assert isinstance(answer, Redirect), "there is no other cluster"
            is_authoritative = answer.is_authoritative
            daemon = self._cluster.by_id[answer.urls.broker_id]

    async def _find(self, lookup: Lookup, topic: Topic, is_authoritative: bool) -> Answer:
        """Find it; what memory says before and afterwards is judged."""
        turns = self._cluster.turns
        self._ready_answers.look(lookup, turns.now_s)
        try:
            return await lookup.find(topic, authoritative=is_authoritative)
        finally:
            self._ready_answers.look(lookup, turns.now_s)

    def _note_known(self, topic: Topic, daemon: DaemonProcess, answer: Connect) -> None:
        observer = self._cluster.observer
        for reign in observer.standing.values():
            is_it = topic.ring_hash in reign.bundle.range
            if is_it and reign.broker_id == answer.urls.broker_id != daemon.broker_id:
                observer.known.setdefault(daemon.broker_id, {})[reign.bundle] = reign.token

    async def look_up_any(self) -> None:
        if (daemon := self.pick()) is not None:
            topic = self._rng.choice(topics())
            await self.ask(f"lookup at {daemon.broker_id}", self.look_up(topic, daemon))

    async def look_up_all(self) -> None:
        """Each topic, at once; then a pause."""
        async with asyncio.TaskGroup() as asking:
            for topic in topics():
                if (daemon := self.pick()) is not None:
                    work = self.look_up(topic, daemon)
                    asking.create_task(self.ask(f"lookup at {daemon.broker_id}", work))
        await asyncio.sleep(_AGAIN_S)

    # Operators.

    async def unload_any(self) -> None:
        daemon = self.pick()
        if daemon is not None and daemon.dependencies is not None and (owned := daemon.owned()):
            bundle = self._rng.choice(owned)
            work = daemon.call(daemon.unload(bundle))
            await self.ask(f"unload {bundle.range} at {daemon.broker_id}", work)

    async def split_any(self) -> None:
        daemon = self.pick()
        if daemon is None or daemon.dependencies is None or not (owned := daemon.owned()):
            return
        if len(self._cluster.observer.standing) < _MOST_BUNDLES:
            bundle = self._rng.choice(owned)
            work = daemon.call(
                daemon.dependencies.services.ownership.split(bundle, "range_equally_divide")
            )
            await self.ask(f"split {bundle.range} at {daemon.broker_id}", work)

    async def move_any(self) -> None:
        """Have each leader move a bundle; also one that only thinks that it leads."""
        leaders = [
            (daemon, admin)
            for daemon in self._cluster.running
            if daemon.dependencies is not None
            and (admin := daemon.dependencies.admin()) is not None
        ]
        standing = sorted(self._cluster.observer.standing)
        if leaders and standing:
            (leader, admin), bundle = self._rng.choice(leaders), self._rng.choice(standing)
            to = self._rng.choice(self._cluster.daemons).broker_id
            work = leader.call(admin.move(bundle, to))
            await self.ask(f"move {bundle.range} to {to} by {leader.broker_id}", work)

    async def turn_load(self) -> None:
        dial = self._rng.choice(self._cluster.dials)
        dial.traffic = traffic_of(self._rng.choice([1.0, 100.0, 4_000.0, 20_000.0]))

    async def create_namespace(self) -> None:
        """Once, and until it is there."""
        while True:
            for daemon in self._cluster.running:
                if daemon.dependencies is None:
                    continue
                parts = daemon.dependencies
                try:
                    with suppress(TenantExists):
                        await daemon.call(
                            parts.services.policies.tenants.create(NAMESPACE.tenant, TENANT)
                        )
                    await daemon.call(parts.services.namespaces.create(NAMESPACE, bundles=4))
                except BrokerCtlError:
                    continue
                return
            await asyncio.sleep(0.2)

    # Counted writes, in the daemons' own sessions.

    async def write_any(self) -> None:
        daemon = self.pick()
        if daemon is None or daemon.store is None:
            return
        write = self._rng.choice([self._count, self._come_and_go, self._queue_up, self._transact])
        sign = f"{daemon.broker_id} {self._rng.getrandbits(64):016x}"
        await self.ask(f"{write.__name__} at {daemon.broker_id}", daemon.call(write(daemon, sign)))

    async def _count(self, daemon: DaemonProcess, sign: str) -> None:
        """An increment: read, then write on that version."""
        store, path = daemon.store, f"{_COUNTERS}/n"
        assert store is not None
        node = await store.get(path)
        if node is None:
            try:
                await store.create(path, sign.encode(), make_parents=True)
            except NodeExists:
                return
            return
        with self._noting(path, node.stat.version):
            stat = await store.set(path, sign.encode(), node.stat.version)
        self._acknowledge(path, stat.version)

    async def _come_and_go(self, daemon: DaemonProcess, sign: str) -> None:
        assert daemon.store is not None
        path = f"{_COUNTERS}/e-{sign[-8:]}"
        mode = self._rng.choice([CreateMode.EPHEMERAL, CreateMode.PERSISTENT])
        node = await daemon.store.create(path, sign.encode(), mode, make_parents=True)
        await daemon.store.delete(node.path, node.stat.version)

    async def _queue_up(self, daemon: DaemonProcess, sign: str) -> None:
        assert daemon.store is not None
        path = f"{_COUNTERS}/q-{sign[-16:]}-"
        created: Versioned | None = None
        try:
            created = await daemon.store.create(
                path, sign.encode(), CreateMode.SEQUENTIAL, make_parents=True
            )
        finally:
            names = self._cluster.ensemble.tree.children(_COUNTERS)
            made = [one for name in names if (one := f"{_COUNTERS}/{name}").startswith(path)]
            # Where its number was lost with the reply, it stays unknown; and it is not sent again.
            if len(made) > 1 or (created is not None and made != [created.path]):
                said = f"I4: {path} was created as {made}, and {created} was the answer"
                self._cluster.observer.complain(said, self._cluster.turns.now_s)
        await daemon.store.delete(created.path, created.stat.version)

    async def _transact(self, daemon: DaemonProcess, sign: str) -> None:
        assert daemon.store is not None
        path, side = f"{_COUNTERS}/m", f"{_COUNTERS}/s-{sign[-8:]}"
        node = await daemon.store.get(path)
        if node is None:
            try:
                await daemon.store.create(path, sign.encode(), make_parents=True)
            except NodeExists:
                return
            return
        data = sign.encode()
        with self._noting(path, node.stat.version):
            await daemon.store.multi([Create(side, data), SetData(path, data, node.stat.version)])
        self._acknowledge(path, node.stat.version + 1)
        await daemon.store.multi([Delete(side)])

    @contextmanager
    def _noting(self, path: str, version: int) -> Iterator[None]:
        """Note a write and its answer; also the writes that nobody heard of any more."""
        turns, wish = self._cluster.turns, ("set", version)
        called_s, answer = turns.now_s, None
        try:
            yield
            answer = True
        except (BadVersion, MultiFailed) as error:
            cause = error.cause if isinstance(error, MultiFailed) else error
            answer = False if isinstance(cause, BadVersion) else None
            raise
        finally:
            answered_s = math.inf if answer is None else turns.now_s
            write = Operation(called_s, answered_s, wish, answer)
            self.writes.setdefault(path, []).append(write)

    def _acknowledge(self, path: str, version: int) -> None:
        written = self._written.setdefault(path, set())
        node = self._cluster.ensemble.tree.find(path)
        now_s = self._cluster.turns.now_s
        if version in written:
            self._cluster.observer.complain(f"I4: {path} {version} was written twice", now_s)
        if node is None or node.stat.version < version:
            self._cluster.observer.complain(f"I4: {path} {version} is lost", now_s)
        written.add(version)
