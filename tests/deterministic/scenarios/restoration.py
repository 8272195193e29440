"""The servers are restored from a copy, and an operator follows the procedure (F9).

Daemons that have seen more than the copy end with an exit code of their own. After the servers'
epoch was raised all is served again, under tokens above all earlier ones (I2).
"""

from typing import Final

from broker_ctl.daemon.lifecycle import exits
from broker_ctl.lab.memory_store.servers import Copy
from tests.deterministic.clients.clients import Clients
from tests.deterministic.judges.settled import Settled
from tests.deterministic.world.cluster import Cluster

# As `broker-ctl zookeeper raise-epoch` does.
_EPOCHS: Final = 100
_END_S: Final = 40.0


class Restoration:
    """Of one cluster; ``limit_s`` is how long it may take until all is served again."""

    def __init__(self, cluster: Cluster, clients: Clients, limit_s: float) -> None:
        self._cluster = cluster
        self._clients = clients
        self._limit_s = limit_s

    async def judge(self, copy: Copy) -> list[str]:
        """What went wrong."""
        seen = self._cluster.ensemble.tree.zxid
        self._cluster.say("* the servers are restored from a copy")
        self._restore(copy, None)
        if wrong := await self._judge_ends():
            return wrong
        for daemon in self._cluster.daemons:
            daemon.kill()
            await daemon.process.kill()
        self._restore(copy, (seen >> 32) + _EPOCHS)
        for daemon in self._cluster.daemons:
            await daemon.process.start()
            daemon.start()
        return await self._judge_service()

    def _restore(self, copy: Copy, epoch: int | None) -> None:
        ensemble = self._cluster.ensemble
        self._cluster.observer.restore(copy.tree, self._cluster.turns.now_s)
        ensemble.restore(copy, epoch)

    async def _judge_ends(self) -> list[str]:
        """Each daemon has seen more than there is now, and says so."""
        cluster = self._cluster
        ran = [daemon for daemon in cluster.daemons if daemon.is_running]
        await cluster.until(lambda: not any(daemon.is_running for daemon in ran), _END_S)
        return [
            f"{daemon.broker_id} met a copy of the servers, and ended with {daemon.exits[-1:]}"
            for daemon in ran
            if daemon.is_running or daemon.exits[-1:] != [exits.HISTORY_BEHIND]
        ]

    async def _judge_service(self) -> list[str]:
        # Logs of partitions may have more than the copy knows of (docs: restored-zookeeper).
        cluster, settled = self._cluster, Settled(self._cluster, are_partitions_judged=False)
        end_s = cluster.turns.now_s + self._limit_s
        while wrong := list(settled.judge()):
            if cluster.turns.now_s > end_s:
                return [f"after the restoration {said}" for said in wrong]
            await self._clients.look_up_all()
        return []
