"""What goes wrong with replicated partitions besides: controllers, and the way between brokers."""

import asyncio
from typing import Final

from broker_ctl.store import paths
from tests.deterministic.clients.replicated_clients import HOST, ReplicatedClients
from tests.deterministic.faults.faults import Faults
from tests.deterministic.faults.interference import insert_rival_controller
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import TIMEOUT_S

_RIVAL_S: Final = 1.0
_CUTS_S: Final = (0.2, 1.0, 3.5, 6.0)
_PAUSES: Final = (0.1, 0.5, 1.1)


class ReplicatedFaults:
    """Each is one step, counted with all others."""

    def __init__(self, cluster: Cluster, clients: ReplicatedClients, faults: Faults) -> None:
        self._cluster = cluster
        self._clients = clients
        self._faults = faults
        self._rng = cluster.draws

    async def kill_controller(self) -> None:
        for daemon in self._clients.controllers():
            self._faults.note("kill controller", daemon.broker_id)
            daemon.kill()
            self._cluster.observer.known.pop(daemon.broker_id, None)

    async def depose_controller(self) -> None:
        """Another broker controls from the instant in which a change of a partition arrives."""
        ensemble = self._cluster.ensemble
        for daemon in self._cluster.daemons:
            daemon.wire.ambush(paths.TOPICS, lambda: insert_rival_controller(ensemble, _RIVAL_S))
        self._faults.note("depose controller", "at the next change of a partition")

    async def cut_network(self) -> None:
        """Two broker processes, or one and all clients, do not reach each other."""
        hosts = [daemon.replicas.host for daemon in self._cluster.daemons]
        one, other = self._rng.sample([*hosts, HOST], 2)
        for_s, network = self._rng.choice(_CUTS_S), self._cluster.network
        is_silent = self._rng.random() < 0.5
        self._faults.note("network", f"{one} and {other} are apart for {for_s} s")
        if is_silent:
            network.fall_silent(one, other)
        else:
            network.cut(one, other)
        await asyncio.sleep(for_s)
        network.heal(one, other)

    async def pause_process(self) -> None:
        """A broker process that keeps replicas, as by SIGSTOP; its daemon goes on."""
        daemon = self._rng.choice(self._cluster.daemons)
        for_s, loop = TIMEOUT_S * self._rng.choice(_PAUSES), daemon.replicas.loop
        if loop.is_stopped:
            return
        self._faults.note("pause process", f"{daemon.broker_id} for {for_s:.1f} s")
        loop.stop_process()
        await asyncio.sleep(for_s)
        if loop.is_stopped:
            loop.continue_process()

    async def heal(self) -> None:
        """Nothing is wrong any more between brokers, and all processes run."""
        self._cluster.network.heal_all()
        for daemon in self._cluster.daemons:
            if daemon.replicas.loop.is_stopped:
                daemon.replicas.loop.continue_process()
