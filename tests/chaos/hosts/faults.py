"""What happens between hosts: packets vanish, one way or both, and nobody is notified.

A proxy resets or holds; a network drops. Each kind lasts for a part of a session, or longer than
one, and is over when all packets pass again.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.chaos.cluster.cluster import DAEMONS, SESSION_S, Cluster, now_s
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.chaos.hosts.cluster import (
    ALL_DAEMONS,
    ALL_SERVERS,
    PORT,
    HostedCluster,
    daemon,
    server,
)
from tests.chaos.hosts.network import Network
from tests.support.time.waiting import eventually

# Of a session timeout: too short for an expiry, or long enough for others to take the bundles.
_PARTS: Final = (0.3, 0.9, 1.3, 1.8)
_DIRECTIONS: Final = (True, False)


async def _last(network: Network, draw: random.Random) -> None:
    await asyncio.sleep(draw.choice(_PARTS) * SESSION_S)
    await network.heal()


def _others(names: Sequence[str], one: str) -> list[str]:
    return [name for name in names if name != one]


def _network(cluster: Cluster) -> Network:
    assert isinstance(cluster, HostedCluster)
    return cluster.network


async def _leaders_host(cluster: Cluster, draw: random.Random) -> str:
    """That of the server that leads, or of any."""
    leader = await eventually(cluster.leader, what="a leader")
    return server(leader.id) if draw.random() < 0.5 else draw.choice(ALL_SERVERS)


# Between servers.


async def servers_apart(cluster: Cluster, draw: random.Random) -> Mend | None:
    """One of them from the others, and not from daemons."""
    network, one = _network(cluster), await _leaders_host(cluster, draw)
    await network.part([one], _others(ALL_SERVERS, one))
    await _last(network, draw)
    return None


async def servers_one_way(cluster: Cluster, draw: random.Random) -> Mend | None:
    """What one says does not arrive, or what the others say to it."""
    network, one = _network(cluster), await _leaders_host(cluster, draw)
    ends = [one], _others(ALL_SERVERS, one)
    await network.drop(*(ends if draw.choice(_DIRECTIONS) else ends[::-1]))
    await _last(network, draw)
    return None


# Between daemons and servers.


async def daemon_apart(cluster: Cluster, draw: random.Random) -> Mend | None:
    """From all servers."""
    network = _network(cluster)
    await network.part([draw.choice(ALL_DAEMONS)], ALL_SERVERS)
    await _last(network, draw)
    return None


async def daemon_unheard(cluster: Cluster, draw: random.Random) -> Mend | None:
    """It hears the servers, which do not hear it."""
    network = _network(cluster)
    await network.drop([draw.choice(ALL_DAEMONS)], ALL_SERVERS)
    await _last(network, draw)
    return None


async def daemon_deaf(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Its pings and writes arrive, and no answer comes back."""
    network = _network(cluster)
    await network.drop(ALL_SERVERS, [draw.choice(ALL_DAEMONS)])
    await _last(network, draw)
    return None


async def address_silent(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Of the addresses of one name one does not answer; all others do."""
    network = _network(cluster)
    await network.part([daemon(DAEMONS)], [draw.choice(ALL_SERVERS)])
    await _last(network, draw)
    return None


# Among daemons.


async def daemons_apart(cluster: Cluster, draw: random.Random) -> Mend | None:
    network, one = _network(cluster), draw.choice(ALL_DAEMONS)
    await network.part([one], _others(ALL_DAEMONS, one))
    await _last(network, draw)
    return None


async def daemons_one_way(cluster: Cluster, draw: random.Random) -> Mend | None:
    network, one = _network(cluster), draw.choice(ALL_DAEMONS)
    ends = [one], _others(ALL_DAEMONS, one)
    await network.drop(*(ends if draw.choice(_DIRECTIONS) else ends[::-1]))
    await _last(network, draw)
    return None


# Of everything.


async def groups(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Two sides, each of which sees itself: a server with one daemon or two, and all the rest."""
    network = _network(cluster)
    some = [await _leaders_host(cluster, draw), *draw.sample(ALL_DAEMONS, draw.choice((1, 2)))]
    rest = [name for name in (*ALL_SERVERS, *ALL_DAEMONS) if name not in some]
    await network.part(some, rest)
    await _last(network, draw)
    return None


# Half-open connections: one end is gone, and the other never hears of it.


async def server_vanished(cluster: Cluster, draw: random.Random) -> Mend | None:
    network, one = _network(cluster), await _leaders_host(cluster, draw)
    (dying,) = [each for each in cluster.ensemble.servers if server(each.id) == one]
    await network.part([one], _others((*ALL_SERVERS, *ALL_DAEMONS), one))
    await dying.kill()
    await _last(network, draw)

    async def restart() -> None:
        await cluster.start_server(dying)
        await dying.wait_serving()

    return restart


async def daemon_vanished(cluster: Cluster, draw: random.Random) -> Mend | None:
    network, broker = _network(cluster), draw.choice(cluster.brokers)
    one = daemon(broker.number)
    await network.part([one], _others((*ALL_SERVERS, *ALL_DAEMONS), one))
    await cluster.kill_daemon(broker)
    await _last(network, draw)
    # Its kernel lives, and what was dropped reaches the servers only now: they count it as contact.
    await network.wait_sent(one, PORT)
    cluster.deaths[-1] = replace(cluster.deaths[-1], heard_s=now_s())
    return broker.daemon.start


HOST_FAULTS: Final[Mapping[str, Fault]] = {
    one.__name__: one
    for one in (
        servers_apart,
        servers_one_way,
        daemon_apart,
        daemon_unheard,
        daemon_deaf,
        address_silent,
        daemons_apart,
        daemons_one_way,
        groups,
        server_vanished,
        daemon_vanished,
    )
}
