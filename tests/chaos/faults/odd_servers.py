"""Servers that change: limits and ticks in a rolling restart, a full disk, no vote, no leader."""

import asyncio
import random
import resource
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import psutil

from broker_ctl.lab.embedded.server import Extras, Role
from tests.chaos.cluster.cluster import SERVERS, SESSION_S, Cluster
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.support.time.waiting import eventually

# Five heartbeats of 0.75 s have to fit.
_LIMIT_MS: Final = 3_800
_TICK_MS: Final = 400
_FULL: Final = (0.5, 1.5)
_WITHOUT_LEADER: Final = (0.6, 1.3)


async def _restart_all(cluster: Cluster, extras: Extras) -> None:
    """One by one, as operators do."""
    for server in cluster.ensemble.servers:
        await server.stop()
        server.extras = extras
        await cluster.start_server(server)
        await server.wait_serving()


async def _rolling_restart(cluster: Cluster, extras: Extras) -> Mend:
    await _restart_all(cluster, extras)

    async def restart_as_before() -> None:
        await _restart_all(cluster, SERVERS)

    return restart_as_before


async def timeouts_limited(cluster: Cluster, _: random.Random) -> Mend | None:
    """A client that comes to a server that was restarted gets a shorter session timeout."""
    limit = replace(SERVERS, lines=(f"maxSessionTimeout={_LIMIT_MS}",))
    return await _rolling_restart(cluster, limit)


async def tick_changed(cluster: Cluster, _: random.Random) -> Mend | None:
    """Servers with different ticks are beside each other meanwhile."""
    return await _rolling_restart(cluster, replace(SERVERS, lines=(f"tickTime={_TICK_MS}",)))


async def observer_made(cluster: Cluster, draw: random.Random) -> Mend | None:
    """One server follows without a vote; daemons stay connected to it, or come to it.

    All are restarted together: no server joins a leader that it knows as an observer.
    """
    chosen = draw.choice(cluster.ensemble.servers)
    await _restart_together(cluster, replace(SERVERS, observers=(chosen.id,)))
    assert await chosen.role() is Role.OBSERVER

    async def restart_as_before() -> None:
        await _restart_together(cluster, SERVERS)

    return restart_as_before


async def _restart_together(cluster: Cluster, extras: Extras) -> None:
    for server in cluster.ensemble.servers:
        await server.kill()
        server.extras = extras
    for server in cluster.ensemble.servers:
        await cluster.start_server(server)
    for server in cluster.ensemble.servers:
        await server.wait_serving()


async def disk_full(cluster: Cluster, draw: random.Random) -> Mend | None:
    """A server cannot write its log any more, until an operator has made room and restarts it."""
    server = draw.choice(cluster.ensemble.servers)
    assert server.pid is not None
    # No file of its may be written beyond its first byte.
    psutil.Process(server.pid).rlimit(resource.RLIMIT_FSIZE, (1, 1))
    await asyncio.sleep(draw.choice(_FULL) * SESSION_S)

    async def restart() -> None:
        await server.kill()
        await cluster.start_server(server)
        await server.wait_serving()

    return restart


async def servers_read_only(cluster: Cluster, draw: random.Random) -> Mend | None:
    """The last server of three serves those who only want to read; daemons are none of them."""
    left, *others = draw.sample(cluster.ensemble.servers, 3)
    for server in others:
        await server.kill()

    async def is_read_only() -> bool:
        return await left.role() is Role.READ_ONLY

    await eventually(is_read_only, what=f"server {left.id} is read-only")
    await asyncio.sleep(draw.choice(_WITHOUT_LEADER) * SESSION_S)
    for server in others:
        await cluster.start_server(server)
    return None


FAULTS: Final[Mapping[str, Fault]] = {
    "timeouts_limited": timeouts_limited,
    "tick_changed": tick_changed,
    "observer_made": observer_made,
    "disk_full": disk_full,
    "servers_read_only": servers_read_only,
}
