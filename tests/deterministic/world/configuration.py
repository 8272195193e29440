"""A configuration store of its own: one server, what goes wrong with it, and what must hold then.

Policies live there, and nothing else: while it cannot be read, what was read holds, and lookups
and ownership go on. A daemon that comes back to it hears of all that has changed meanwhile.
"""

import asyncio
from typing import Final

from broker_ctl.codec import encode
from broker_ctl.errors import BrokerCtlError, StoreError
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, SetData
from broker_ctl.store.path_rules import ancestors_of
from tests.deterministic.clients.clients import Clients
from tests.deterministic.faults.faults import Faults
from tests.deterministic.judges.observed_ensembles import ConfigurationEnsemble
from tests.deterministic.judges.settled import Settled
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import OPERATION_S, TICK_S, TIMEOUT_S, DaemonProcess
from tests.deterministic.world.topics import topics

_CUTS: Final = (0.3, 0.9, 1.3, 2.5)
_RESTARTS_S: Final = (0.2, 1.0, 6.0)
# Longer than a session there lasts, and than anybody waits for an answer from there.
_OUTAGE_S: Final = max(OPERATION_S, TIMEOUT_S + TICK_S) + 1.0
_ANSWER_S: Final = 3.0
_LOOK_S: Final = 0.25


class ConfigurationFaults:
    """Each is one step, and is counted where its effect is certain."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._rng = cluster.draws
        self._cut: set[DaemonProcess] = set()

    def _note(self, kind: str, what: str) -> None:
        self._cluster.coverage.configuration[kind] += 1
        self._faults.note(f"configuration {kind}", what)

    async def cut(self) -> None:
        """One daemon's connection, for a while."""
        daemon = self._rng.choice(self._cluster.daemons)
        for_s = TIMEOUT_S * self._rng.choice(_CUTS)
        store = daemon.configuration
        if store is None or not store.is_connected or daemon in self._cut:
            return
        self._note("cut", f"{daemon.broker_id} for {for_s:.1f} s")
        self._cut.add(daemon)
        daemon.loop.call_soon(store.disconnect)
        await asyncio.sleep(for_s)
        if daemon.configuration is store and not daemon.link.is_severed:
            daemon.loop.call_soon(store.reconnect)
        self._cut.discard(daemon)

    async def expire(self) -> None:
        """One daemon's session there, and not the one that it owns bundles in."""
        ensemble = self._cluster.configuration
        daemon = self._rng.choice(self._cluster.daemons)
        store = daemon.configuration
        if ensemble is not None and store is not None and store.session_id in ensemble.session_ids:
            self._note("expiry", daemon.broker_id)
            ensemble.expire(store.session_id)

    async def restart(self) -> None:
        """Its server is away for a while, and knows its sessions when it comes back."""
        if (ensemble := self._cluster.configuration) is not None:
            for_s = self._rng.choice(_RESTARTS_S)
            self._note("restart", f"takes {for_s} s")
            ensemble.change_leader(for_s)

    async def change_policies(self) -> None:
        """An operator says something of namespaces that nobody has."""
        if self._cluster.configuration is not None:
            name = f"p{self._rng.getrandbits(32):08x}"
            self._cluster.say(f"policy {name}")
            set_policy(self._cluster.configuration, name)

    async def heal(self) -> None:
        """Everybody may reach it."""
        for daemon in self._cluster.daemons:
            if daemon.configuration is not None and not daemon.link.is_severed:
                daemon.loop.call_soon(daemon.configuration.reconnect)


def set_policy(ensemble: ConfigurationEnsemble, name: str) -> None:
    """The only isolation policy of the cluster."""
    path = paths.isolation_policies("c")
    data = encode({name: {"namespaces": ["no/body"], "primary": ["nobody"], "secondary": []}})
    for above in ancestors_of(path):
        if ensemble.tree.find(above) is None:
            ensemble.write_as_admin([Create(above)])
    is_there = ensemble.tree.find(path) is not None
    ensemble.write_as_admin([SetData(path, data) if is_there else Create(path, data)])


class Outage:
    """Everybody is cut off from the configuration store, and nothing else is wrong."""

    def __init__(self, cluster: Cluster, clients: Clients, limit_s: float) -> None:
        self._cluster = cluster
        self._clients = clients
        self._limit_s = limit_s

    async def judge(self) -> list[str]:
        """What went wrong, in it and after it."""
        cluster = self._cluster
        assert cluster.configuration is not None
        # What a daemon has never read it has to ask for.
        for daemon in cluster.running:
            await self._clients.ask("lookup", self._clients.look_up(topics()[0], daemon))
        cluster.say("* the configuration store is out of reach")
        for daemon in cluster.daemons:
            if daemon.configuration is not None:
                daemon.loop.call_soon(daemon.configuration.disconnect)
        set_policy(cluster.configuration, "meanwhile")
        if said := await self._look_up_for(_OUTAGE_S):
            return [said]
        if said := await self._until_settled(is_reachable=False):
            return [f"without the configuration store {said}"]
        for daemon in cluster.daemons:
            if daemon.configuration is not None:
                daemon.loop.call_soon(daemon.configuration.reconnect)
        if said := await self._until_settled(is_reachable=True):
            return [f"with the configuration store again {said}"]
        return []

    async def _look_up_for(self, for_s: float) -> str:
        """Whose answer wanted something of the configuration store."""
        cluster, end_s = self._cluster, self._cluster.turns.now_s + for_s
        while cluster.turns.now_s < end_s:
            for topic in topics():
                asked = self._clients.pick()
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        if asked is not None:
                            await self._clients.look_up(topic, asked)
                except (StoreError, TimeoutError) as error:
                    return f"a lookup waits for the configuration store: {error!r}"
                except BrokerCtlError:
                    continue  # it is on its way to another broker
            await asyncio.sleep(_LOOK_S)
        return ""

    async def _until_settled(self, *, is_reachable: bool) -> str:
        """What is not as it must be when the time is over."""
        cluster, end_s = self._cluster, self._cluster.turns.now_s + self._limit_s
        while wrong := [
            *Settled(cluster).judge(),
            *(follows_policies(cluster) if is_reachable else ()),
        ]:
            if cluster.turns.now_s > end_s:
                return "; ".join(wrong)
            for topic in topics():
                if (daemon := self._clients.pick()) is not None:
                    work = self._clients.look_up(topic, daemon)
                    await self._clients.ask(f"lookup at {daemon.broker_id}", work)
            await asyncio.sleep(_LOOK_S)
        return ""


def follows_policies(cluster: Cluster) -> list[str]:
    """Which daemons do not know what the configuration store says now."""
    if cluster.configuration is None:
        return []
    node = cluster.configuration.tree.find(paths.isolation_policies("c"))
    wrong: list[str] = []
    for daemon in cluster.daemons:
        if daemon.assembly is None or daemon.configuration is None:
            continue
        known = daemon.assembly.services.constraints.current().isolation
        if not daemon.configuration.is_connected:
            wrong.append(f"{daemon.broker_id} is not connected to the configuration store")
        elif node is not None and not any(f'"{one.name}"'.encode() in node.data for one in known):
            wrong.append(f"{daemon.broker_id} knows the policies {[one.name for one in known]}")
    return wrong
