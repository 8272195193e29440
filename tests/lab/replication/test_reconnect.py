"""A follower connects again and again, with pauses of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from random import Random

import pytest

from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.lab.replication.fetchers import Fetchers
from broker_ctl.lab.replication.storage import MemoryStorage
from broker_ctl.lab.replication.tcp import Channel, ChannelClosed, ReplicaListener
from broker_ctl.lab.time import LoopClock, in_virtual_time

LEADER = 1
ORDERS = TopicPartition("orders", 0)


class DeadNetwork:
    """A network without listeners, which notes attempts to connect."""

    def __init__(self) -> None:
        self.tried_s: list[float] = []

    async def listen(
        self, address: str, serve: Callable[[Channel], Awaitable[None]]
    ) -> ReplicaListener:
        raise NotImplementedError

    async def connect(self, address: str) -> Channel:
        self.tried_s.append(asyncio.get_running_loop().time())
        raise ChannelClosed(address)


async def pauses(seed: int) -> list[float]:
    """Pauses of one follower whose leader is dead for a minute."""
    network = DeadNetwork()
    fetchers = Fetchers(
        2, {}, MemoryStorage(), network, lambda _: None, clock=LoopClock(), rng=Random(seed)
    )
    fetchers.follow(ORDERS, LEADER)
    fetchers.settle({LEADER: "leader:6650"})
    await asyncio.sleep(60)
    await fetchers.close()
    return [after - before for before, after in pairwise(network.tried_s)]


@in_virtual_time
async def test_followers_of_a_dead_leader_do_not_come_back_in_step() -> None:
    first, second = await pauses(1), await pauses(2)
    assert all(abs(one - other) > 1e-6 for one, other in zip(first, second, strict=False))
    assert max(first[:1] + second[:1]) <= 0.05
    assert max(first + second) == pytest.approx(1, abs=0.1)
    assert max(first + second) <= 1
