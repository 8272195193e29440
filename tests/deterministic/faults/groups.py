"""Daemons in two groups, each of which sees itself: what is between them does not arrive."""

import asyncio
from typing import Final

from broker_ctl.lab.memory_store.servers import MemoryServer
from tests.deterministic.clients.replicated_clients import HOST
from tests.deterministic.faults.faults import Faults
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import TIMEOUT_S, DaemonProcess

_PARTS: Final = (0.3, 0.9, 1.3, 2.5)


class Groups:
    """Counted with all other faults."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._rng = cluster.draws

    async def part(self) -> None:
        """One daemon or two, with a server that has no leader or with none, and all the rest."""
        daemons, for_s = self._cluster.daemons, TIMEOUT_S * self._rng.choice(_PARTS)
        some = self._rng.sample(daemons, self._rng.choice((1, 2)))
        rest = [one for one in daemons if one not in some]
        server = self._follower_of(some[0]) if self._rng.random() < 0.6 else None
        names = " and ".join(one.broker_id for one in some)
        beside = "no server" if server is None else f"server {server.number}"
        self._faults.note("groups", f"{names} with {beside} for {for_s:.1f} s")
        pairs = self._pairs(some, rest)
        for one, other in pairs:
            one.wire.apart.add(other.broker_id)
            other.wire.apart.add(one.broker_id)
        async with asyncio.TaskGroup() as lasting:
            lasting.create_task(self._part_network(some, rest, for_s))
            lasting.create_task(self._part_servers(some, rest, server, for_s))
        for one, other in pairs:
            one.wire.apart.discard(other.broker_id)
            other.wire.apart.discard(one.broker_id)

    @staticmethod
    def _pairs(
        some: list[DaemonProcess], rest: list[DaemonProcess]
    ) -> list[tuple[DaemonProcess, DaemonProcess]]:
        return [(one, other) for one in some for other in rest]

    def _server_of(self, daemon: DaemonProcess) -> MemoryServer | None:
        """Whose client it is."""
        sessions = self._cluster.ensemble._sessions
        session = sessions.get(0 if daemon.store is None else daemon.store.session_id)
        return None if session is None or session.client is None else session.client.server

    def _follower_of(self, daemon: DaemonProcess) -> MemoryServer | None:
        """The same, if it can be cut off from a leader."""
        server = self._server_of(daemon)
        is_it = server is not None and server.is_linked
        return server if is_it and server is not self._cluster.ensemble.leader else None

    async def _part_network(
        self, some: list[DaemonProcess], rest: list[DaemonProcess], for_s: float
    ) -> None:
        """Clients are on either side."""
        network, here = self._cluster.network, [one.replicas.host for one in some]
        there = [one.replicas.host for one in rest]
        (here if self._rng.random() < 0.5 else there).append(HOST)
        pairs = [(one, other) for one in here for other in there]
        for one, other in pairs:
            network.fall_silent(one, other)
        await asyncio.sleep(for_s)
        for one, other in pairs:
            network.heal(one, other)

    async def _part_servers(
        self,
        some: list[DaemonProcess],
        rest: list[DaemonProcess],
        server: MemoryServer | None,
        for_s: float,
    ) -> None:
        ensemble = self._cluster.ensemble
        if server is not None:
            ensemble.cut_off(server)
            for daemon in rest:
                if self._server_of(daemon) is server and daemon.store is not None:
                    ensemble.drop(daemon.store.session_id, "it is on the other side")
        alone = [one for one in some if server is None or self._server_of(one) is not server]
        async with asyncio.TaskGroup() as lasting:
            for daemon in alone:
                lasting.create_task(self._faults.cut_off(daemon, for_s))
            await asyncio.sleep(for_s)
        if server is not None and not server.is_linked:
            ensemble.link(server)
