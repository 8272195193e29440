"""A broker is started elsewhere while its former life still runs: a name is not an identity.

Both have a daemon and a broker process, one broker id and one address; the disk of the replicas is
mounted where the broker was started last. Machines whose network or power is thought to be gone,
and pods that were deleted by force, come back like that.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from broker_ctl.errors import StartError
from tests.deterministic.faults.faults import Faults
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import TIMEOUT_S, DaemonProcess

_LASTING: Final = (0.3, 0.9, 1.3, 2.5, 4.0)
_STATES: Final = ("cut off", "cut off", "paused", "connected")


class SecondLives:
    """Counted with all other faults; one broker has two lives at a time."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._rng = cluster.draws
        self._begun: set[str] = set()

    async def begin(self) -> None:
        """Its former life is heard of again before it ends, if that takes long enough."""
        cluster, former = self._cluster, self._rng.choice(self._cluster.daemons)
        state, for_s = self._rng.choice(_STATES), TIMEOUT_S * self._rng.choice(_LASTING)
        is_known = self._rng.random() < 0.7
        if cluster.former or not former.is_running or not former.process.is_alive:
            return
        self._faults.note("second life", f"{former.broker_id}, {state} for {for_s:.1f} s")
        self._begun.add(former.broker_id)
        daemon = cluster.begin_elsewhere(former)
        if is_known:
            cluster.by_id[daemon.broker_id] = daemon
        async with asyncio.TaskGroup() as lasting:
            if state == "cut off":
                lasting.create_task(self._faults.cut_off(former, for_s / 2))
            elif state == "paused":
                lasting.create_task(self._faults.pause_for(former, for_s / 2))
            await daemon.process.start()
            daemon.start()
            await asyncio.sleep(for_s)
        if former in cluster.former:
            await self._end(former)

    async def _end(self, former: DaemonProcess) -> None:
        cluster = self._cluster
        self._faults.note("former life ends", former.broker_id)
        former.kill()
        cluster.former.remove(former)
        (now,) = [one for one in cluster.daemons if one.broker_id == former.broker_id]
        cluster.by_id[now.broker_id] = now
        if former.process.is_alive:
            await former.process.kill()

    async def heal(self) -> None:
        """Each broker has one life."""
        for former in list(self._cluster.former):
            await self._end(former)

    def supervise(self) -> set[str]:
        """Those that gave up because their former life was there start again, as by systemd.

        Returns their ids. A daemon that ends by an error closes nothing while its broker process
        may still serve: its own session has to run out, as after a kill.
        """
        refused = [
            daemon
            for daemon in self._cluster.daemons
            if not daemon.is_running
            and is_refusal(daemon.exits)
            and daemon.broker_id in self._begun
        ]
        for daemon in refused:
            daemon.start()
        return {daemon.broker_id for daemon in refused}


def is_refusal(exits: Sequence[object]) -> bool:
    """Whether a process ended because its id was in use."""
    match exits:
        case [*_, ExceptionGroup() as group]:
            return group.subgroup(StartError) is not None
        case [*_, error]:
            return isinstance(error, StartError)
    return False
