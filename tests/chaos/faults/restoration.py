"""Real servers are restored from a copy, and an operator follows the procedure (F9).

Docs: zookeeper-restored-from-a-copy. A daemon that meets the copy ends with a code of its own;
after the epoch was raised all is served again, under tokens above all earlier ones (I2).
"""

import asyncio
import random
import shutil
import sys
from asyncio.subprocess import DEVNULL
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from broker_ctl.daemon.lifecycle import exits
from tests.chaos.clients.traffic import Traffic
from tests.chaos.cluster.cluster import Cluster, now_s
from tests.chaos.cluster.topics import topics
from tests.chaos.judges.acts import Guard
from tests.chaos.progress import Progress
from tests.support.time.waiting import eventually

_SERVED_S: Final = 90.0
_END_S: Final = 60.0
# Bundles move meanwhile, so that tokens grow beyond the copy.
_ON_S: Final = (1.0, 4.0)


@dataclass(slots=True)
class Restored:
    """What came of it, by round."""

    rounds: int = 0
    exit_codes: list[int | None] = field(default_factory=list)
    served_after_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        codes = sorted(set(self.exit_codes), key=str)
        return (
            f"restored {self.rounds} times; daemons ended with {codes}; "
            f"all served after {self.served_after_s} s; {len(self.violations)} violations"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "restored": self.rounds,
            "exit_codes": self.exit_codes,
            "served_after_s": self.served_after_s,
            "violations": self.violations,
        }


async def restored(rounds: int, seed: int, directory: Path, progress: Progress) -> Restored:
    """Restore the servers of a cluster from a copy, once in each round."""
    await asyncio.to_thread(directory.mkdir, parents=True)
    found, draw = Restored(), random.Random(seed)
    async with Cluster(directory, Guard.LEASE) as cluster:
        traffic = Traffic(cluster, random.Random(seed))
        await traffic.make_namespace()
        async with asyncio.TaskGroup() as group:
            clients = group.create_task(traffic.run(), name="traffic")
            for number in range(rounds):
                progress.show(f"round {number + 1}")
                await _restore(cluster, directory, found, draw)
                found.rounds += 1
            clients.cancel()
    return found


async def _restore(cluster: Cluster, directory: Path, found: Restored, draw: random.Random) -> None:
    await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
    zookeeper, copy = directory / "zookeeper", directory / "copy"
    await _stop_servers(cluster)
    await asyncio.to_thread(shutil.copytree, zookeeper, copy)
    await _start_servers(cluster)
    await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
    await asyncio.sleep(draw.uniform(*_ON_S))
    highest, seen = _highest_token(cluster), cluster.observer.last_zxid
    await _stop_servers(cluster)
    await _put_back(copy, zookeeper)
    await _start_servers(cluster)
    await _judge_ends(cluster, found)
    await _stop_servers(cluster)
    await _put_back(copy, zookeeper)
    await asyncio.to_thread(shutil.rmtree, copy)
    for server in cluster.ensemble.servers:
        await _raise_epoch(zookeeper / f"server-{server.id}" / "data", max(seen, highest))
    await _start_servers(cluster)
    await _start_brokers(cluster)
    begin_s = now_s()
    try:
        await eventually(lambda: _is_served(cluster), _SERVED_S, "all is served", poll_s=0.2)
    except AssertionError as error:
        found.violations.append(f"I6: after a restoration {error}")
        raise
    found.served_after_s.append(round(now_s() - begin_s, 1))
    lower = {act.token for act in cluster.log.acts if act.t_ns > begin_s * 1e9} - {0}
    if lower and min(lower) <= highest:
        found.violations.append(f"I2: token {min(lower)} after {highest}")


async def _is_served(cluster: Cluster) -> bool:
    hashes = [topic.ring_hash for topic in topics()]
    return await cluster.is_settled() and not cluster.log.unserved(hashes, now_s())


def _highest_token(cluster: Cluster) -> int:
    return max(act.token for act in cluster.log.acts)


async def _stop_servers(cluster: Cluster) -> None:
    async with asyncio.TaskGroup() as group:
        for server in cluster.ensemble.servers:
            group.create_task(server.stop(), name=f"stop server {server.id}")


async def _start_servers(cluster: Cluster) -> None:
    for server in cluster.ensemble.servers:
        await server.start()
    for server in cluster.ensemble.servers:
        await server.wait_serving()


async def _put_back(copy: Path, zookeeper: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, zookeeper)
    await asyncio.to_thread(shutil.copytree, copy, zookeeper)


async def _judge_ends(cluster: Cluster, found: Restored) -> None:
    """Each daemon has seen more than there is now, and says so with its exit code."""

    def have_ended() -> bool:
        return not any(broker.daemon.is_running for broker in cluster.brokers)

    try:
        await eventually(have_ended, _END_S, "all daemons end")
    except AssertionError as error:
        found.violations.append(f"daemons met a copy of the servers, and {error}")
    codes = [broker.daemon.exit_code for broker in cluster.brokers]
    found.exit_codes += codes
    if set(codes) != {exits.HISTORY_BEHIND}:
        found.violations.append(f"daemons met a copy of the servers, and ended with {codes}")


async def _raise_epoch(data: Path, seen: int) -> None:
    """As the procedure says, with the verb."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_ctl", "zookeeper", "raise-epoch"),
        *(str(data), "--seen", hex(seen)),
        stdin=DEVNULL,
        stdout=DEVNULL,
    )
    assert await process.wait() == 0


async def _start_brokers(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        if broker.daemon.is_running:
            await broker.daemon.kill()
        await broker.kill_process()
        await broker.start_process()
        await broker.daemon.start()
    await cluster.observer.close(end_session=False)
    cluster.observer = cluster.store(cluster.ensemble.connect_string)
    await cluster.observer.start()
