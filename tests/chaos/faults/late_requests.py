"""A link on which heartbeats wait after they were stamped.

They arrive at a server that loses its leader then: what the server knows dies with it.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from tests.chaos.cluster.cluster import SESSION_S, Cluster
from tests.chaos.faults.configuration_faults import Fault, Mend
from tests.support.time.waiting import eventually

_STALLS: Final = (0.2, 0.6, 1.1)
_APART: Final = (0.5, 1.2)


async def requests_stalled(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Heartbeats arrive late at a follower, which may lose its leader as soon as they do."""
    links = cluster.links.of_daemon(draw.choice(cluster.brokers).number)
    leader = await eventually(cluster.leader, what="a leader to be cut from")
    follower = draw.choice([one for one in cluster.ensemble.servers if one is not leader])
    for link in links:
        link.stall()
    await asyncio.sleep(draw.choice(_STALLS) * SESSION_S)
    for link in links:
        await link.heal()
    if draw.random() < 0.5:
        between = cluster.links.between(leader.id, follower.id)
        for link in between:
            link.fall_silent()
        await asyncio.sleep(draw.uniform(*_APART) * SESSION_S)
        for link in between:
            await link.heal()
    return None


FAULTS: Final[Mapping[str, Fault]] = {
    "requests_stalled": requests_stalled,
}
