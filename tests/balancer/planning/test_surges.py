"""A surge is answered at the report that shows it, in virtual time, and within the budgets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.history.rows import JournalEntry
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.rules.leader_rules import NO_SURGES, SplitRules, SurgeRules
from broker_ctl.core.strategies.balance.policy import BalancePlanner
from broker_ctl.lab.time import LoopClock, in_virtual_time
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually

A, B, C = BROKERS = ("a:8080", "b:8080", "c:8080")
RING = Ring.even(NAMESPACE, 15)
SMALL = RING.bundles[0]
REPORT_S = 5.0
INTERVAL_S = 600.0
ANSWERING = replace(
    QUICK,
    shedding=BalancePlanner(),
    shedding_interval_s=INTERVAL_S,
    splitting_interval_s=INTERVAL_S,
    surges=SurgeRules(),
)


@dataclass
class Stage:
    """Three brokers with five bundles each; one bundle of the first is small until it surges."""

    cluster: LeaderCluster
    balancer: LoadBalancer
    small_bytes: list[float]

    @property
    def transfers(self) -> list[JournalEntry]:
        entries = self.cluster.journal.recent(100)
        return [entry for entry in entries if entry.decision.kind == "transfer"]

    @property
    def notes(self) -> list[str]:
        entries = self.cluster.journal.recent(100)
        return [
            e.decision.sentence
            for e in entries
            if e.decision.reason is Reason.SURGE and e.decision.kind == "skip"
        ]

    async def pass_s(self, seconds: float) -> None:
        until_s = self.cluster.clock.now_s() + seconds
        await eventually(lambda: self.cluster.clock.now_s() >= until_s, deadline_s=seconds + 60)

    async def report(self, count: int) -> None:
        """Every broker reports so often, at the interval of reports."""
        for _ in range(count):
            await self.pass_s(REPORT_S)
            await self.cluster.publish()

    async def reports_until_moved(self, most: int) -> int:
        """Reports of each broker from now until the first move."""
        for number in range(1, most + 1):
            await self.report(1)
            # Less than the loop of the leader would sleep.
            await self.pass_s(0.3)
            if self.transfers:
                return number
        return most + 1


@asynccontextmanager
async def stage(rules: SurgeRules = ANSWERING.surges, most_moves: int = 64) -> AsyncIterator[Stage]:
    small_bytes = [1e7]

    def traffic(bundle: Bundle) -> BundleStats:
        return even_traffic(small_bytes[0] if bundle == SMALL else 5e7)

    async with running_cluster(*BROKERS, traffic=traffic) as cluster:
        budgets = replace(QUICK.budgets, max_moves=most_moves)
        cluster.clock = LoopClock()
        cluster.rules = replace(ANSWERING, surges=rules, budgets=budgets)
        await cluster.create_namespace(len(RING.bundles))
        for number, bundle in enumerate(RING.bundles):
            await cluster.brokers[BROKERS[number % 3]].acquire(bundle)
        async with leading_at(cluster, A) as balancer:
            found = Stage(cluster, balancer, small_bytes)
            await found.report(4)
            assert found.transfers == []
            yield found


@in_virtual_time
async def test_the_first_report_of_a_surge_is_acted_on() -> None:
    async with stage() as found:
        found.small_bytes[0] = 2e8
        assert await found.reports_until_moved(3) == 1
        assert {entry.outcome.result for entry in found.transfers} == {"done"}
        assert {entry.decision.reason.value for entry in found.transfers} == {"surge"}
        (note, *_) = found.notes
        assert note.startswith(f"skip {SMALL}: surge: it grew from 9.5 MiB/s to 190.7 MiB/s")
        surges = found.balancer.explain(str(SMALL))["surge"]
        assert surges["state"] == "followed"


@in_virtual_time
async def test_without_the_rule_a_surge_waits_for_the_next_cycle() -> None:
    async with stage(NO_SURGES) as found:
        found.small_bytes[0] = 2e8
        assert await found.reports_until_moved(3) == 4
        assert found.notes == []


@in_virtual_time
async def test_a_surge_moves_within_the_budgets_and_the_next_plans_follow_soon() -> None:
    async with stage(most_moves=1) as found:
        found.small_bytes[0] = 2e8
        await found.report(1)
        await found.pass_s(1)
        assert len(found.transfers) == 1
        await found.report(2)
        assert len(found.transfers) >= 2


@in_virtual_time
async def test_a_surge_is_over_a_minute_later() -> None:
    async with stage() as found:
        term = found.balancer.term
        assert term is not None
        calm = term.recorder.cycle
        found.small_bytes[0] = 2e8
        await found.report(14)
        # One at once, and one every five seconds.
        assert 10 <= term.recorder.cycle - calm <= 14
        assert found.balancer.explain(str(SMALL))["surge"] is None
        cycles = term.recorder.cycle
        await found.report(10)
        assert term.recorder.cycle == cycles


@in_virtual_time
@pytest.mark.parametrize("factor", [9.0, 1.0])
async def test_growth_below_tenfold_waits_for_the_next_cycle(factor: float) -> None:
    async with stage() as found:
        found.small_bytes[0] = 1e7 * factor
        assert await found.reports_until_moved(3) == 4


@in_virtual_time
async def test_a_bundle_that_surges_beyond_its_share_is_split_at_once() -> None:
    splitting = SplitRules(max_share_ratio=0.1, share_algorithm="range_equally_divide")
    async with stage() as found:
        found.cluster.rules = replace(found.cluster.rules, splitting=splitting)
        await found.report(2)
        found.small_bytes[0] = 4e8
        await found.report(1)
        await found.pass_s(0.3)
        assert SMALL not in found.cluster.brokers[A].serving
