"""What is done to the configuration store, and to the sessions and links of daemons to it.

While it is away, and after, every broker has to answer lookups. Whether all stays served is judged
as after every other fault, before the store is back.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final

from broker_ctl.core.model.names import Topic
from tests.chaos.clients.traffic import one_topic_a_slice
from tests.chaos.cluster.cluster import SESSION_S, Broker, Cluster
from tests.chaos.cluster.configuration import ANSWER_S, Answer
from tests.support.daemon.running_daemons import look_up
from tests.support.time.waiting import eventually

Mend = Callable[[], Awaitable[None]]
Fault = Callable[[Cluster, random.Random], Awaitable[Mend | None]]

# Shorter than a session there, and longer.
_TIMES: Final = (0.3, 1.5)


async def cut(cluster: Cluster, draw: random.Random) -> Mend:
    """Of one daemon or of all: connections are reset, and nobody comes through."""
    fault = "configuration_cut"
    brokers = cluster.brokers if draw.random() < 0.5 else [draw.choice(cluster.brokers)]
    await _warm_up(cluster, fault)
    for broker in brokers:
        await cluster.configuration.link_of(broker.number).cut()
    await asyncio.sleep(draw.choice(_TIMES) * SESSION_S)
    await _judge_lookups(cluster, fault)

    async def heal() -> None:
        await cluster.configuration.heal()
        await _judge_return(cluster, fault)

    return heal


async def expire(cluster: Cluster, draw: random.Random) -> Mend | None:
    """Of one daemon or of all; the session that owns bundles stands."""
    fault = "configuration_expired"
    brokers = cluster.brokers if draw.random() < 0.5 else [draw.choice(cluster.brokers)]
    await _warm_up(cluster, fault)
    ended: set[int] = set()
    for broker in brokers:
        stands = partial(cluster.configuration.sessions_of, broker.number)
        ended |= await eventually(stands, what="a session to end")
    for session_id in ended:
        await cluster.configuration.expire(session_id)
    await _judge_lookups(cluster, fault)
    await _judge_return(cluster, fault, ended)
    return None


async def kill_server(cluster: Cluster, draw: random.Random) -> Mend:
    """It has all that it acknowledged when it is back."""
    fault = "configuration_killed"
    await _warm_up(cluster, fault)
    await cluster.configuration.server.kill()
    await asyncio.sleep(draw.choice(_TIMES) * SESSION_S)
    await _judge_lookups(cluster, fault)

    async def restart() -> None:
        await cluster.configuration.server.restart()
        await _judge_return(cluster, fault)

    return restart


FAULTS: Final[Mapping[str, Fault]] = {
    "configuration_cut": cut,
    "configuration_expired": expire,
    "configuration_killed": kill_server,
}


async def _warm_up(cluster: Cluster, fault: str) -> None:
    """What a broker has never read it has to ask for: each is asked while the store is there."""
    await _judge_lookups(cluster, f"before {fault}")


async def _judge_lookups(cluster: Cluster, fault: str) -> None:
    async with asyncio.TaskGroup() as group:
        for broker in cluster.brokers:
            group.create_task(_judge_broker(cluster, broker, fault), name=f"ask {broker.id}")


async def _judge_broker(cluster: Cluster, broker: Broker, fault: str) -> None:
    for topic in one_topic_a_slice():
        answers = partial(_answers, cluster, broker, topic)
        if not await _note(cluster, broker, fault, f"answer for {topic}", answers):
            # The others would be waited for as long.
            return


async def _judge_return(cluster: Cluster, fault: str, ended: Collection[int] = frozenset()) -> None:
    for broker in cluster.brokers:
        is_back = partial(_has_session, cluster, broker, ended)
        await _note(cluster, broker, fault, "session of the configuration store", is_back)


async def _note(
    cluster: Cluster,
    broker: Broker,
    fault: str,
    what: str,
    condition: Callable[[], Awaitable[bool]],
) -> bool:
    try:
        await eventually(condition, ANSWER_S, poll_s=0.1)
    except AssertionError:
        is_given = False
    else:
        is_given = True
    cluster.configuration.answers.append(Answer(fault, broker.id, what, is_given=is_given))
    return is_given


async def _answers(cluster: Cluster, broker: Broker, topic: Topic) -> bool:
    return bool(await look_up(cluster.http, broker.daemon, topic))


async def _has_session(cluster: Cluster, broker: Broker, ended: Collection[int]) -> bool:
    return bool(cluster.configuration.sessions_of(broker.number).difference(ended))
