"""Which bundles a broker accepts from a request that calls itself authoritative."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from broker_ctl.broker.lookup.fallback_placement import ReceiverCheck
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import NoBroker
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.brokers import NAMESPACE, MemoryBroker, cluster

TTL_S = 100.0
SHOP = IsolationPolicy("shop", (str(NAMESPACE),), ("b0",), ("b1",))
OTHERS = IsolationPolicy("others", ("elsewhere/.*",), ("b0",))


@dataclass
class Scene:
    """Three brokers, b0 to b2, each with its check; the policies and drains are the test's."""

    brokers: list[MemoryBroker]
    bundle: Bundle
    constraints: Constraints = NO_CONSTRAINTS
    drained: set[str] = field(default_factory=set)

    def check_at(self, number: int) -> ReceiverCheck:
        broker = self.brokers[number]
        return ReceiverCheck(
            store=broker.store,
            registry=broker.registry,
            constraints=lambda: self.constraints,
            drained=lambda: self.drained,
            report_ttl_s=lambda: TTL_S,
        )

    async def accepting(self, bundle: Bundle | None = None) -> list[int]:
        """The brokers that accept the bundle."""
        found = []
        for number in range(len(self.brokers)):
            try:
                await self.check_at(number).check(bundle or self.bundle)
            except NoBroker:
                continue
            found.append(number)
        return found


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with cluster(3) as built:
        yield Scene(built.brokers, built.bundles[0])


def only_bundle(tenant: str, name: str) -> Bundle:
    (bundle,) = Ring.even(Namespace(tenant, name), 1).bundles
    return bundle


@in_virtual_time
async def test_every_broker_accepts_what_nothing_speaks_against() -> None:
    async with scene() as built:
        assert await built.accepting() == [0, 1, 2]


@in_virtual_time
async def test_a_drained_broker_accepts_nothing() -> None:
    async with scene() as built:
        built.drained.add("b1:8080")
        assert await built.accepting() == [0, 2]
        with pytest.raises(NoBroker, match="b1:8080 is drained"):
            await built.check_at(1).check(built.bundle)


@in_virtual_time
async def test_a_policy_admits_its_primaries_and_no_others() -> None:
    async with scene() as built:
        built.constraints = Constraints((SHOP,))
        assert await built.accepting() == [0]
        with pytest.raises(NoBroker, match="b1:8080 is only secondary of policy shop"):
            await built.check_at(1).check(built.bundle)
        with pytest.raises(NoBroker, match="b2:8080 is neither primary nor secondary"):
            await built.check_at(2).check(built.bundle)


@in_virtual_time
async def test_a_primary_of_a_policy_accepts_no_other_namespace() -> None:
    async with scene() as built:
        built.constraints = Constraints((OTHERS,))
        assert await built.accepting() == [1, 2]


@in_virtual_time
@pytest.mark.parametrize("loss", ["drained", "away", "silent"])
async def test_a_secondary_accepts_when_too_few_primaries_are_available(loss: str) -> None:
    async with scene() as built:
        built.constraints = Constraints((SHOP,))
        primary, secondary, _ = built.brokers
        match loss:
            case "drained":
                built.drained.add(primary.broker_id)
            case "away":
                await primary.registry.unregister()
                await asyncio.sleep(1.0)
            case "silent":
                await asyncio.sleep(TTL_S * 2)
                await secondary.registry.publish(b"{}")
        with_primary = [] if loss == "drained" else [0]
        assert await built.accepting() == [*with_primary, 1]


@in_virtual_time
async def test_a_pinned_namespace_is_accepted_at_home() -> None:
    async with scene() as built:
        for tenant in ("pulsar", "sla-monitor"):
            assert await built.accepting(only_bundle(tenant, "b1:8080")) == [1]
        # Nobody else answers for a broker that is away, except for what clients measure.
        assert await built.accepting(only_bundle("pulsar", "gone:1")) == []
        assert await built.accepting(only_bundle("sla-monitor", "gone:1")) == [0, 1, 2]
