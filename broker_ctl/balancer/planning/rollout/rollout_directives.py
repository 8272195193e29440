"""What a rollout holds while it runs: a pause of the balancing, and drains.

Both are directives like an operator's, with the name of the rollout as the giver. So every broker
shows who paused and why, and what a rollout ends is only what it began: a pause and drains of
operators stay, also those with which an operator has taken a rollout's over.
"""

from contextlib import suppress

from broker_ctl.balancer.planning.directive_writes import write_directives
from broker_ctl.balancer.planning.drains import Drains
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.core.rollout.rollout import Rollout
from broker_ctl.errors import CorruptRecord, NewerVersion, NodeExists
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete
from broker_ctl.store.records.directives import DrainRecord, PauseRecord


class RolloutDirectives:
    """The pause and the drains of rollouts, in one term."""

    def __init__(self, term: LeaderTerm, drains: Drains) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._drains = drains

    async def reconcile(self, rollout: Rollout) -> None:
        """Begin and end what the state of a rollout asks for; repeated, it changes nothing.

        Raises:
            Fenced: another leader was elected.
            StoreError: a node could not be read, or not be written.
        """
        directives = self._dependencies.directives
        if not rollout.is_holding:
            # What was begun just now is not in this broker's copy yet, and nobody looks later.
            await directives.wait_synced()
        if rollout.is_holding and directives.pause is None:
            await self._pause(rollout)
        for broker_id in sorted(rollout.drained - directives.drains.keys()):
            await self._drain(rollout, broker_id)
        for broker_id, drain in sorted(directives.drains.items()):
            if drain.rollout_id and broker_id not in rollout.drained:
                await self._undrain(broker_id)
        pause = directives.pause
        if not rollout.is_holding and pause is not None and pause.rollout_id:
            await self._resume()

    async def _pause(self, rollout: Rollout) -> None:
        pause = Pause(self._order(rollout), rollout_id=rollout.rollout_id)
        await write_directives(self._term, Create(paths.PAUSE, PauseRecord(pause).encode()))

    async def _resume(self) -> None:
        node = await self._dependencies.store.get(paths.PAUSE)
        if node is None:
            return
        try:
            is_of_rollout = bool(PauseRecord.decode(node.path, node.data).pause.rollout_id)
        except (CorruptRecord, NewerVersion):
            return
        if is_of_rollout:
            # By its version: an operator may make the pause their own meanwhile.
            await write_directives(self._term, Delete(paths.PAUSE, node.stat.version))

    async def _drain(self, rollout: Rollout, broker_id: str) -> None:
        if await self._dependencies.store.exists(paths.DRAINS) is None:
            with suppress(NodeExists):
                await self._dependencies.store.create(paths.DRAINS, make_parents=True)
        order, left = self._order(rollout), self._drains.left(broker_id)
        drain = Drain(order, *left, rollout_id=rollout.rollout_id)
        data = DrainRecord(drain).encode()
        await write_directives(self._term, Create(paths.drain(broker_id), data))

    async def _undrain(self, broker_id: str) -> None:
        path = paths.drain(broker_id)
        node = await self._dependencies.store.get(path)
        if node is None:
            return
        try:
            is_of_rollout = bool(DrainRecord.decode(node.path, node.data).drain.rollout_id)
        except (CorruptRecord, NewerVersion):
            return
        if is_of_rollout:
            await write_directives(self._term, Delete(path, node.stat.version))

    def _order(self, rollout: Rollout) -> AuditInfo:
        why = rollout.order.why or "brokers restart one after the other"
        return AuditInfo.of(self._dependencies.clock.wall_ms(), rollout.who, why)
