"""Servers and many daemons on virtual time, in one process; and their clients."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from broker_ctl.broker.lookup.lookup import Connect, Redirect
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import BrokerCtlError
from broker_ctl.lab.memory_store.ensemble import EnsembleRules
from broker_ctl.lab.memory_store.servers import MemoryClient, MemoryServer
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Notification, Operation
from broker_ctl.store.path_rules import ancestors_of
from broker_ctl.store.records.policies import LocalPolicies, PoliciesRecord
from tests.deterministic.fleet.counts import MeasuredTurns, Traffic
from tests.deterministic.fleet.daemon import GRACE_S, TICK_S, FleetDaemon, World
from tests.deterministic.fleet.traffic import FleetTraffic, Placed, namespaces, place_of
from tests.deterministic.judges.answered import judge_answer
from tests.deterministic.judges.observed_ensembles import ObservedEnsemble
from tests.deterministic.judges.observer import Observer
from tests.deterministic.world.loops import new_loop

_SERVERS: Final = 3
_PING_S: Final = 10.0
_HOPS: Final = 4
_ANSWER_S: Final = 60.0
# A connection of clients asks for one topic after the other; clients grow with the fleet, or a
# large one would wait for them.
_CLIENTS_OF_EACH: Final = 5
_FEWEST_CLIENTS: Final = 500
_AGAIN_S: Final = 1.0


class FleetObserver(Observer):
    """`Observer` of traffic in many namespaces."""

    def place_of(self, key: int) -> tuple[Namespace, int]:
        return place_of(key)


class _CountedServer(MemoryServer):
    """A server whose watch events are counted."""

    def __init__(self, number: int, traffic: Traffic) -> None:
        super().__init__(number)
        self._traffic = traffic

    def send(self, client: MemoryClient, events: Sequence[Notification]) -> None:
        self._traffic.note_events(events)
        super().send(client, events)


class Fleet:
    """All of it.

    Attributes:
        zones: the daemons of each of three zones.
        lookups: how many were answered, and how many refused.
    """

    def __init__(self, daemons: int, bundles: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.turns = MeasuredTurns()
        self.observer = FleetObserver(GRACE_S)
        self.driver = new_loop(self.turns, "driver")
        servers = new_loop(self.turns, "servers")
        traffic = Traffic()
        rules = EnsembleRules(
            _SERVERS, TICK_S, _PING_S, new_server=lambda number: _CountedServer(number, traffic)
        )
        self.ensemble = ObservedEnsemble(rules, self.rng, servers, self.observer)
        self.load = FleetTraffic(bundles)
        self.world = World(self.turns, self.ensemble, self.observer, self.load, traffic)
        self.daemons = [
            FleetDaemon(number, self.world, random.Random(self.rng.getrandbits(64)))
            for number in range(daemons)
        ]
        self.world.by_id.update((daemon.broker_id, daemon) for daemon in self.daemons)
        self.zones = [self.daemons[zone::3] for zone in range(3)]
        self.lookups = {"done": 0, "refused": 0}
        self._bundles = bundles
        self._clients = asyncio.Semaphore(max(_FEWEST_CLIENTS, _CLIENTS_OF_EACH * daemons))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run until ``work`` has ended, in the driver's loop."""
        task = self.driver.create_task(work, name="driver")
        self.turns.run_until(task.done)
        task.result()

    async def until(self, is_so: Callable[[], bool], limit_s: float) -> bool:
        """Wait in virtual time; returns whether it came to be."""
        end_s = self.turns.now_s + limit_s
        while not is_so():
            if self.turns.now_s >= end_s:
                return False
            await asyncio.sleep(_AGAIN_S)
        return True

    def create_namespaces(self) -> None:
        """As a client that is not a broker."""
        made: set[str] = set()

        def create(path: str, data: bytes = b"") -> None:
            wanted = [(parent, b"") for parent in ancestors_of(path)] + [(path, data)]
            operations: list[Operation] = []
            for one, payload in wanted:
                if one not in made and self.ensemble.tree.find(one) is None:
                    operations.append(Create(one, payload))
                made.add(one)
            if operations:
                self.ensemble.write_as_admin(operations)

        for namespace, count in namespaces(self._bundles):
            ring = Ring.even(namespace, count)
            create(paths.policies(namespace), PoliciesRecord(ring.boundaries).encode())
            create(paths.local_policies(namespace), LocalPolicies(ring.boundaries).encode())
            create(paths.ownership_of(namespace))

    # Clients.

    @property
    def leaders(self) -> list[FleetDaemon]:
        return [daemon for daemon in self.daemons if daemon.is_leading]

    def unserved(self) -> list[Placed]:
        """Topics without an owner that is alive."""
        return [one for one in self.load.placed if not self._is_served(one)]

    def _is_served(self, placed: Placed) -> bool:
        """An owner node, a daemon that holds it, and a data plane that may serve it."""
        owned = self.observer.standing.get(placed.bundle)
        if owned is None:
            namespace, position = place_of(placed.key)
            standing = self.observer.standing_in.get(namespace, {})
            found = (r for b, r in standing.items() if position in b.range)
            owned = next(found, None)
        if owned is None:
            return False
        daemon = self.world.by_id[owned.broker_id]
        if daemon.assembly is None:
            return False
        held = daemon.assembly.services.ownership.owned().get(owned.bundle)
        return held is not None and held.state is BundleState.OWNED and held.token == owned.token

    async def look_up(self, placed: Placed) -> None:
        """As a client does: follow redirects to the broker that serves."""
        ready = self._any_ready()
        if ready is None:
            return
        async with self._clients:
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self._follow(placed, ready)
                self.lookups["done"] += 1
            except TimeoutError:
                self.observer.complain(f"I10: a lookup of {placed.topic}", self.turns.now_s)
            except BrokerCtlError:
                self.lookups["refused"] += 1

    def _any_ready(self) -> FleetDaemon | None:
        """A client whose host is gone, or answers that it is not ready, tries another at once.

        A client that waited a second instead would be served the later the more hosts are gone.
        """
        tried = (self.rng.choice(self.daemons) for _ in self.daemons)
        return next((daemon for daemon in tried if daemon.is_ready), None)

    async def _follow(self, placed: Placed, daemon: FleetDaemon) -> None:
        is_authoritative = False
        for _ in range(_HOPS):
            if daemon.dependencies is None:
                return
            find = daemon.dependencies.lookup.find(placed.topic, authoritative=is_authoritative)
            answer = await daemon.call(find)
            if isinstance(answer, Connect):
                self._note_known(placed.bundle, daemon, answer.urls.broker_id)
                return
            assert isinstance(answer, Redirect), "there is no other cluster"
            is_authoritative = answer.is_authoritative
            daemon = self.world.by_id[answer.urls.broker_id]

    def _note_known(self, bundle: Bundle, daemon: FleetDaemon, owner_id: str) -> None:
        reign = self.observer.standing.get(bundle)
        if reign is not None and reign.broker_id == owner_id != daemon.broker_id:
            self.observer.known.setdefault(daemon.broker_id, {})[bundle] = reign.token

    async def ask_until_served(self, topics: Sequence[Placed]) -> None:
        """Each has a client of its own, which asks once a second, whatever others wait for."""
        async with asyncio.TaskGroup() as asking:
            for placed in topics:
                asking.create_task(self._ask_until_served(placed), name="client")

    async def _ask_until_served(self, placed: Placed) -> None:
        await self.look_up(placed)
        while not self._is_served(placed):
            await asyncio.sleep(_AGAIN_S)
            await self.look_up(placed)

    async def look_up_now_and_then(self) -> None:
        """Each daemon is asked for some topic once a minute."""
        while True:
            await asyncio.sleep(60.0 / len(self.daemons))
            await self.look_up(self.rng.choice(self.load.placed))

    # Judges of what is seen from time to time.

    async def judge_answers(self) -> None:
        """I4: what was answered is what was done."""
        while True:
            await asyncio.sleep(10.0)
            for said in self._wrong_answers():
                self.observer.complain(said, self.turns.now_s)

    def _wrong_answers(self) -> Iterator[str]:
        for daemon in self.daemons:
            pending = daemon.wire.requests
            for request in [request for request in pending if request.future.done()]:
                del pending[request]
                if said := judge_answer(request, self.observer):
                    yield f"I4: {daemon.broker_id} {request.what}: {said}"

    def unsettled(self) -> Iterator[str]:
        """What is not as it must be once nothing is wrong any more."""
        if len(self.leaders) != 1:
            yield f"I3: {[daemon.broker_id for daemon in self.leaders]} lead"
        registered = len(self.ensemble.tree.children(paths.REGISTRATIONS))
        owned: dict[str, set[Bundle]] = {}
        for bundle, reign in self.observer.standing.items():
            owned.setdefault(reign.broker_id, set()).add(bundle)
        for daemon in self.daemons:
            if not daemon.is_ready or daemon.assembly is None:
                yield f"I6: {daemon.broker_id} is not ready: {daemon.exits[-1:]}"
                continue
            known = len(daemon.assembly.coordination.registry.peers)
            if known != registered:
                yield f"I6: {daemon.broker_id} knows {known} of {registered} brokers"
            held = set(daemon.assembly.services.ownership.owned())
            if held != owned.get(daemon.broker_id, set()):
                yield f"I6: {daemon.broker_id} holds {len(held)} bundles, and others are its own"
