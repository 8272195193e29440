"""What is done while daemons of two releases run in one cluster.

Replacing a daemon, and electing brokers of one release, are faults like any other: clients ask on
meanwhile, and all must be served again afterwards. What an operator does (`operator`) is done
through one release and read by the other.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from broker_ctl.codec import decode_object
from broker_ctl.errors import StoreError
from broker_ctl.store import paths
from tests.chaos.cluster.cluster import DAEMON, DAEMONS, Broker, Cluster
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.chaos.versions.operator import operate
from tests.support.time.waiting import eventually

_READY_S: Final = 60.0
_ELECTED_S: Final = 30.0
_ELECTIONS: Final = (paths.LOADBALANCE_ELECTION, paths.CONTROLLER_ELECTION)


class Steps:
    """A rolling upgrade and back.

    Args:
        old: the command that is ``broker-ctl`` of the earlier release.
        traffic_s: how long clients go on between two steps.
    """

    def __init__(self, old: Sequence[str], traffic_s: float) -> None:
        self._old = old
        self._traffic_s = traffic_s

    @property
    def faults(self) -> Mapping[str, Fault]:
        """Each step under its name."""
        numbers = range(1, DAEMONS + 1)
        return {
            "traffic": self._traffic,
            "operated": _operated,
            "old_elected": partial(self._elect, self._old),
            "new_elected": partial(self._elect, DAEMON),
            **{f"upgraded_{number}": partial(self._replace, number, DAEMON) for number in numbers},
            **{
                f"downgraded_{number}": partial(self._replace, number, self._old)
                for number in numbers
            },
        }

    @staticmethod
    def schedule() -> Iterator[str]:
        """All are old, all are new, all are old again; each mixture is led by both releases."""
        one_release = ("traffic", "operated")
        both = ("traffic", "old_elected", "operated", "new_elected", "operated")
        numbers = range(1, DAEMONS + 1)
        yield from one_release
        for number in numbers:
            yield f"upgraded_{number}"
            yield from both if number < DAEMONS else one_release
        for number in numbers:
            yield f"downgraded_{number}"
            yield from both if number < DAEMONS else one_release

    async def _traffic(self, _: Cluster, __: random.Random) -> Mend | None:
        await asyncio.sleep(self._traffic_s)
        return None

    async def _replace(
        self, number: int, command: Sequence[str], cluster: Cluster, _: random.Random
    ) -> Mend | None:
        """As an operator does: it hands its bundles over, and its place is taken."""
        broker = cluster.brokers[number - 1]
        await broker.daemon.stop()
        assert broker.daemon.exit_code == 0, f"{broker.id} stopped with {broker.daemon.exit_code}"
        broker.daemon.command = command
        await _start(cluster, broker)
        return None

    async def _elect(
        self, command: Sequence[str], cluster: Cluster, _: random.Random
    ) -> Mend | None:
        """Holders of the other release are killed until one of this release is elected."""
        killed: list[Broker] = []
        try:
            for election in _ELECTIONS:
                while (elected := await _elected(cluster, election)).daemon.command != command:
                    await cluster.kill_daemon(elected)
                    killed.append(elected)
        finally:
            for broker in killed:
                await _start(cluster, broker)
        return None


async def _start(cluster: Cluster, broker: Broker) -> None:
    await broker.daemon.start()
    await broker.daemon.wait_ready(cluster.http, _READY_S)


async def _elected(cluster: Cluster, election: paths.ElectionPaths) -> Broker:
    async def found() -> Broker | None:
        try:
            node = await cluster.observer.get(election.node_path)
        except StoreError:
            return None
        if node is None:
            return None
        running = [broker for broker in cluster.brokers if broker.daemon.is_running]
        return next((broker for broker in running if _names(node.data, broker)), None)

    return await eventually(found, _ELECTED_S, f"a holder of {election.node_path}", poll_s=0.1)


def _names(data: bytes, broker: Broker) -> bool:
    """Whether an election's node is this broker's; the controller's has its number."""
    values = decode_object(data)
    return values.get("brokerid") == broker.number or broker.id in str(values)


async def _operated(cluster: Cluster, draw: random.Random) -> Mend | None:
    await operate(cluster, draw)
    return None
