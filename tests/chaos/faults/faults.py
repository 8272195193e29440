"""What is done to the processes and the links between them, each kind under one name.

A fault strikes, lasts and is over when its function returns; what must be put back in place only
after the cluster has recovered without it is what it returns.
"""

import asyncio
import random
import signal
from collections.abc import Mapping
from functools import partial
from typing import Final

from broker_ctl.lab.embedded.server import ZooKeeperServer
from tests.chaos.clients.counter import NUMBER as COUNTER
from tests.chaos.cluster.cluster import SESSION_S, Broker, Cluster
from tests.chaos.cluster.links import Link
from tests.chaos.faults.configuration_faults import FAULTS as CONFIGURATION_FAULTS
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.chaos.faults.held_loops import FAULTS as HELD_LOOPS
from tests.chaos.faults.late_requests import FAULTS as LATE_REQUESTS
from tests.chaos.faults.odd_servers import FAULTS as ODD_SERVERS
from tests.support.time.waiting import eventually
from tests.support.zookeeper.session_faults import expire_session, password_of

# Heartbeats are of the first kind, what takes and gives bundles is of the second.
_SET: Final = 5
_MULTI: Final = 14
_EATEN_LIMIT_S: Final = 5.0
_PAUSES: Final = (0.3, 0.9, 1.1, 2.0)
_READY_S: Final = 60.0


# Processes.


async def daemon_killed(cluster: Cluster, draw: random.Random) -> Mend | None:
    broker = draw.choice(cluster.brokers)
    await cluster.kill_daemon(broker)
    return broker.daemon.start


async def daemon_paused(times: float, cluster: Cluster, draw: random.Random) -> Mend | None:
    broker = draw.choice(cluster.brokers)
    broker.daemon.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(times * SESSION_S)
    finally:
        broker.daemon.signal(signal.SIGCONT)
    return None


async def broker_process_killed(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Back before its daemon calls it dead, or long after."""
    broker = draw.choice(cluster.brokers)
    await broker.kill_process()
    await asyncio.sleep(draw.choice((0.3, 3.0)))
    await broker.start_process()
    return None


# Servers.


async def _leader_or_any(cluster: Cluster, draw: random.Random) -> ZooKeeperServer:
    leader = await cluster.leader()
    is_leader = leader is not None and draw.random() < 0.5
    return leader if is_leader and leader is not None else draw.choice(cluster.ensemble.servers)


async def server_killed(cluster: Cluster, draw: random.Random) -> Mend | None:
    server = await _leader_or_any(cluster, draw)
    await server.kill()

    async def restart() -> None:
        await cluster.start_server(server)
        await server.wait_serving()

    return restart


async def server_paused(times: float, cluster: Cluster, draw: random.Random) -> Mend | None:
    server = await _leader_or_any(cluster, draw)
    server.pause()
    try:
        await asyncio.sleep(times * SESSION_S)
    finally:
        server.resume()
    return None


async def ensemble_restarted(cluster: Cluster, _: random.Random) -> Mend | None:
    async with asyncio.TaskGroup() as group:
        for server in cluster.ensemble.servers:
            group.create_task(server.kill(), name=f"kill server {server.id}")
    for server in cluster.ensemble.servers:
        await cluster.start_server(server)
    return None


async def follower_isolated(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Cut from its leader, and not from its clients: it answers pings that prove nothing."""
    leader = await eventually(cluster.leader, what="a leader to be cut from")
    follower = draw.choice([one for one in cluster.ensemble.servers if one is not leader])
    links = cluster.links.between(leader.id, follower.id)
    is_notified = draw.random() < 0.3
    for link in links:
        if is_notified:
            await link.cut()
        else:
            link.fall_silent()
    await asyncio.sleep(draw.uniform(0.3, 1.2) * SESSION_S)
    await _heal(links)
    return None


async def acknowledgements_held(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Proposals wait for the disks of followers, while daemons move between the servers.

    The commit of a write whose connection has ended comes while the next connection waits for its
    own.
    """
    links = [link for one in cluster.brokers for link in cluster.links.of_daemon(one.number)]
    cluster.links.hold_acks()
    try:
        for _ in range(draw.choice((1, 2, 3))):
            await asyncio.sleep(draw.uniform(0.05, 0.3))
            for link in links:
                await link.cut()
            await _heal(links)
        await asyncio.sleep(draw.uniform(0.1, 1.0))
    finally:
        await cluster.links.release_acks()
    return None


# Links of daemons.


def _some_links(cluster: Cluster, draw: random.Random) -> list[Link]:
    """All of one daemon's links, or one of them."""
    links = cluster.links.of_daemon(draw.choice(cluster.brokers).number)
    return links if draw.random() < 0.7 else [draw.choice(links)]


def _some_time_s(draw: random.Random) -> float:
    """Too short for an expiry, or long enough for others to take the bundles."""
    return draw.choice(_PAUSES) * SESSION_S


async def _heal(links: list[Link]) -> None:
    for link in links:
        await link.heal()


async def links_cut(cluster: Cluster, draw: random.Random) -> Mend | None:
    links = _some_links(cluster, draw)
    for link in links:
        await link.cut()
    await asyncio.sleep(_some_time_s(draw))
    await _heal(links)
    return None


async def links_half_open(cluster: Cluster, draw: random.Random) -> Mend | None:
    links = _some_links(cluster, draw)
    for link in links:
        link.fall_silent()
    await asyncio.sleep(_some_time_s(draw))
    await _heal(links)
    return None


async def links_slow(cluster: Cluster, draw: random.Random) -> Mend | None:
    links = _some_links(cluster, draw)
    for link in links:
        link.slow_down(draw.uniform(0.02, 0.3))
    await asyncio.sleep(SESSION_S / 2)
    await _heal(links)
    return None


async def reply_eaten(cluster: Cluster, draw: random.Random) -> Mend | None:
    """A daemon's, or that of the checker's own counter."""
    number = draw.choice((COUNTER, *(one.number for one in cluster.brokers)))
    links = cluster.links.of_daemon(number)
    opcode = _SET if number == COUNTER else draw.choice((_SET, _MULTI))
    before = sum(link.proxy.lost for link in links)
    for link in links:
        link.eat_reply(opcode)
    await eventually(
        lambda: sum(link.proxy.lost for link in links) > before, _EATEN_LIMIT_S, "a reply to eat"
    )
    return None


# Sessions.


async def _expire(cluster: Cluster, broker: Broker) -> None:
    session_id = await cluster.session_of(broker)
    if session_id:
        address = cluster.ensemble.connect_string.split(",")[0]
        await expire_session(address, session_id, password_of(session_id))

        async def is_seen() -> bool:
            return await cluster.session_of(broker) != session_id

        await eventually(is_seen, what="the observer's server has heard of it")


async def session_expired(cluster: Cluster, draw: random.Random) -> Mend | None:
    await _expire(cluster, draw.choice(cluster.brokers))
    return None


async def all_sessions_expired(cluster: Cluster, _: random.Random) -> Mend | None:
    async with asyncio.TaskGroup() as group:
        for broker in cluster.brokers:
            group.create_task(_expire(cluster, broker), name=f"expire {broker.id}")
    return None


FAULTS: Final[Mapping[str, Fault]] = {
    "daemon_killed": daemon_killed,
    **{f"daemon_paused_{times}": partial(daemon_paused, times) for times in _PAUSES},
    "server_killed": server_killed,
    **{f"server_paused_{times}": partial(server_paused, times) for times in _PAUSES},
    "links_cut": links_cut,
    "links_half_open": links_half_open,
    "links_slow": links_slow,
    "reply_eaten": reply_eaten,
    "follower_isolated": follower_isolated,
    "acknowledgements_held": acknowledgements_held,
    "session_expired": session_expired,
    "all_sessions_expired": all_sessions_expired,
    "ensemble_restarted": ensemble_restarted,
    "broker_process_killed": broker_process_killed,
    **HELD_LOOPS,
    **LATE_REQUESTS,
    **ODD_SERVERS,
    **CONFIGURATION_FAULTS,
}
# After which no lease can have warned the owner in time.
EXPIRIES: Final = frozenset({"session_expired", "all_sessions_expired"})
