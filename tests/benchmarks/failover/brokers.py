"""A broker that leads everything dies, or asks to be let go."""

import asyncio
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import SystemClock
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import DataPlaneError
from broker_ctl.lab.replica_client import ReplicaClient
from broker_ctl.lab.replication.tcp import TcpNetwork
from broker_ctl.store import paths
from tests.benchmarks.failover.scene import Scene
from tests.benchmarks.failover.servers import operations
from tests.benchmarks.lines.log_lines import BROKER_ACKNOWLEDGED, matches
from tests.benchmarks.lines.progress import report_progress
from tests.support.time.waiting import eventually

_LIMIT_S: Final = 180.0
_POLL_S: Final = 0.25
_CLIENT_POLL_S: Final = 0.05
_VALUE: Final = b"committed before the broker died"
# Asked for by a client: any broker but the one that dies answers where a partition is led.
_ASKED: Final = 1


@dataclass(frozen=True, slots=True)
class Failover:
    """One failover after the death of a broker.

    Attributes:
        seconds: from the end of the registration, as another client hears of it, to the last
            acknowledged instruction.
        zk_ops: operations of all daemons below their chroot, from the kill on.
        first_fetch_s: from the kill until a client was given a record by the new leader.
    """

    seconds: float
    zk_ops: int
    first_fetch_s: float


async def measure_death(scene: Scene, ports: list[int]) -> Failover:
    """One run; afterwards the victim is back, and leads everything."""
    top, count = scene.chroot.strip("/"), scene.layout.partitions
    partition = list(scene.layout.all)[count // 2]
    await _commit(scene, partition)
    before = await operations(ports, top)
    scene.gone_s = 0.0
    killed_s = now_s()
    await scene.victim.kill()
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(_fetch(scene, partition), name="first fetch")
        gone_s = await eventually(lambda: scene.gone_s, _LIMIT_S, "the registration goes")
        # Each partition has two replicas left, and both get an update.
        last_s = await wait_acknowledged(scene, killed_s, 2 * count)
        fetched_s = await fetching
    scene.window_s = gone_s, last_s
    done = Failover(last_s - gone_s, await operations(ports, top) - before, fetched_s - killed_s)
    report_progress(f"  {count}: {done.seconds:.3f} s, {done.zk_ops} operations")
    await scene.victim.start()
    await scene.victim.wait_ready(scene.http, 60.0)
    await scene.wait_whole()
    return done


async def measure_shutdown(scene: Scene) -> float:
    """Seconds from the question to the last acknowledged instruction; the victim comes back."""
    count = scene.layout.partitions
    victim = scene.layout.victim
    stat = await scene.store.exists(paths.broker(victim))
    assert stat is not None
    controller = await scene.controller()
    body = {"broker": victim, "broker_epoch": stat.czxid, "force": False}
    began_s = now_s()
    url = f"{controller.url}/control/v1/controlled-shutdown"
    reply = await scene.http.request("POST", url, json=body)
    assert reply.status == 200, reply.body
    assert reply.json()["is_done"], reply.body
    replied_s = now_s()
    ended_s = max(replied_s, await wait_acknowledged(scene, began_s, 2 * count))
    took_s, scene.window_s = ended_s - began_s, (began_s, ended_s)
    report_progress(f"  {count}: controlled shutdown in {took_s:.3f} s")
    await scene.victim.kill()
    await scene.victim.start()
    await scene.victim.wait_ready(scene.http, 60.0)
    await scene.wait_whole()
    return took_s


async def wait_acknowledged(scene: Scene, since_s: float, updates: int) -> float:
    """When the last of these partition updates was acknowledged, by the controllers' logs."""

    def last() -> float | None:
        lines = [
            line
            for daemon in scene.daemons.by_id.values()
            for line in matches(daemon, BROKER_ACKNOWLEDGED, since_s)
        ]
        acknowledged = sum(int(match[1]) for _, match in lines)
        return max(at_s for at_s, _ in lines) if acknowledged >= updates else None

    what = f"{updates} partition updates are acknowledged"
    return await eventually(last, _LIMIT_S, what, _POLL_S)


async def _commit(scene: Scene, partition: TopicPartition) -> None:
    async with ReplicaClient(TcpNetwork(), scene.daemons.address(scene.layout.victim)) as client:
        await client.produce(partition, [_VALUE])


async def _fetch(scene: Scene, partition: TopicPartition) -> float:
    """When a client was given the record by another broker."""
    while True:
        led = await scene.daemons.led(partition, at=_ASKED)
        if led is not None and led["leader"] not in {scene.layout.victim, -1} and led["address"]:
            try:
                async with ReplicaClient(TcpNetwork(), led["address"]) as client:
                    if (await client.consume(partition)).records:
                        return now_s()
            except DataPlaneError:
                pass  # it has not heard of it yet
        await asyncio.sleep(_CLIENT_POLL_S)


def now_s() -> float:
    """Seconds of the wall clock, which dates the lines of logs."""
    return SystemClock().wall_ms() / 1000
