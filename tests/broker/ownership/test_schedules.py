"""Seeded schedules of faults and wishes, on several brokers at once.

A seed that fails replays by itself: everything that is drawn comes from it, and time is virtual.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import BrokerCtlError
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.brokers import GRACE_S, TIMEOUT_S, Cluster, MemoryBroker, cluster
from tests.support.time.waiting import eventually

SEEDS = range(24)
STEPS = 60
MOST_BUNDLES = 24


class Schedule:
    """Draws what happens next."""

    def __init__(self, built: Cluster, rng: random.Random) -> None:
        self._built = built
        self._rng = rng
        self._cut: set[str] = set()
        self.outcomes: dict[str, int] = {}

    async def run(self) -> None:
        kinds: list[tuple[Callable[[MemoryBroker], Awaitable[None]], float]] = [
            (self._acquire, 10),
            (self._unload, 4),
            (self._split, 2),
            (self._blink, 2),
            (self._cut_off, 2),
            (self._fail_calls, 3),
        ]
        verbs, weights = zip(*kinds, strict=True)
        async with asyncio.TaskGroup() as group:
            for step in range(STEPS):
                (verb,) = self._rng.choices(verbs, weights)
                broker = self._rng.choice(self._built.brokers)
                group.create_task(self._attempt(verb, broker), name=f"step {step}")
                await asyncio.sleep(self._rng.expovariate(2.0))

    async def _attempt(
        self, verb: Callable[[MemoryBroker], Awaitable[None]], broker: MemoryBroker
    ) -> None:
        try:
            await verb(broker)
        except BrokerCtlError as error:
            outcome = type(error).__name__
        else:
            outcome = "done"
        key = f"{verb.__name__} {outcome}"
        self.outcomes[key] = self.outcomes.get(key, 0) + 1

    async def _acquire(self, broker: MemoryBroker) -> None:
        """As a lookup does."""
        ring = await broker.namespaces.ring(self._built.bundles[0].namespace)
        bundle = self._rng.choice(ring.bundles)
        if await broker.ownership.owner_of(bundle) is None:
            await broker.ownership.acquire(bundle)

    async def _unload(self, broker: MemoryBroker) -> None:
        if owned := sorted(broker.owned()):
            await broker.ownership.unload(self._rng.choice(owned))

    async def _split(self, broker: MemoryBroker) -> None:
        ring = await broker.namespaces.ring(self._built.bundles[0].namespace)
        if (owned := sorted(broker.owned())) and len(ring.bundles) < MOST_BUNDLES:
            bundle = self._rng.choice(owned)
            await broker.ownership.split(bundle, "range_equally_divide")

    async def _blink(self, broker: MemoryBroker) -> None:
        if broker.broker_id not in self._cut:
            broker.blink()

    async def _cut_off(self, broker: MemoryBroker) -> None:
        """For less than the lease, or for longer than the session lives."""
        if broker.broker_id in self._cut:
            return
        self._cut.add(broker.broker_id)
        broker.memory.disconnect()
        await asyncio.sleep(self._rng.choice([0.5, 3.0, 9.0, 11.0, 16.0]))
        broker.memory.reconnect()
        self._cut.discard(broker.broker_id)

    async def _fail_calls(self, broker: MemoryBroker) -> None:
        verb = self._rng.choice(["load", "renew", "split", "unload", "fence", "loaded"])
        is_executed = self._rng.random() < 0.5
        broker.steering.fail(verb, is_executed=is_executed, times=self._rng.randrange(1, 4))


async def owners_after_asking(built: Cluster, bundle: Bundle) -> list[MemoryBroker]:
    owners: list[MemoryBroker] = []
    for broker in built.brokers:
        with contextlib.suppress(BrokerCtlError):
            await broker.ownership.acquire(bundle)
            owners.append(broker)
    return owners


@pytest.mark.parametrize("seed", SEEDS)
@in_virtual_time
async def test_whatever_happens_there_is_one_owner_and_everything_heals(seed: int) -> None:
    async with cluster(3, bundles=4, seed=seed) as built:
        await Schedule(built, random.Random(seed)).run()
        await asyncio.sleep(2 * TIMEOUT_S)
        for broker in built.brokers:
            broker.steering.failing.clear()
        await built.settled()
        await asyncio.sleep(GRACE_S)
        for bundle in await built.ring():
            ask = partial(owners_after_asking, built, bundle)
            assert len(await eventually(ask, 60.0, f"{bundle} can be acquired")) == 1
        await asyncio.sleep(1.0)
        await built.settled()
        verdict = built.verdict()
        assert verdict.double_served == 0, verdict.faults
        served = dict.fromkeys(await built.ring(), 0)
        for broker in built.brokers:
            for bundle in broker.owned():
                served[bundle] += 1
        assert set(served.values()) == {1}
