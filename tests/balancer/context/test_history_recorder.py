"""The view and the rules behind the decisions of a leader are recorded in each cycle."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from broker_ctl.balancer.context.decisions import HistoryRecorder, LeaderHistory
from broker_ctl.core.history.columns import RowKind, RowT
from broker_ctl.core.history.rows import PolicyVersionRow
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory, ThresholdShedder
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, running_cluster
from tests.support.clusters.leader_cycles import cycle_of
from tests.support.clusters.views import broker, cluster, stats

A, B = "a:8080", "b:8080"


@dataclass
class Rows:
    """`RowJournal` in memory: kind, epoch, cycle and time of each row."""

    seen: list[tuple[str, int, int, int | None, Any]] = field(default_factory=list)

    def record_rows(
        self,
        kind: RowKind[RowT],
        rows: Sequence[RowT],
        *,
        epoch: int = 0,
        cycle: int = 0,
        at_ms: int | None = None,
    ) -> None:
        self.seen += [(kind.name, epoch, cycle, at_ms, row) for row in rows]

    def of(self, kind: str) -> list[tuple[int, int, Any]]:
        return [(epoch, cycle, row) for name, epoch, cycle, _, row in self.seen if name == kind]


def policy(settings: str) -> PolicyVersionRow:
    return PolicyVersionRow("hash", "manager", "shedding", "placement", settings, "1.0")


def traffic(_: Bundle) -> BundleStats:
    return even_traffic(1e7)


async def test_a_cycle_writes_one_row_for_each_bundle_and_broker() -> None:
    rows = Rows()
    async with running_cluster(A, B, traffic=traffic) as running:
        ring = await running.create_namespace(4)
        running.history = LeaderHistory(rows, lambda: policy("{}"))
        running.rules = replace(QUICK, shedding=ThresholdShedder())
        for bundle in ring.bundles:
            await running.brokers[A].acquire(bundle)
        async with running.term(B) as term:
            await running.synced(term)
            cycle = cycle_of(term)
            await cycle.once(running.rules)
            first = [row.bundle for _, _, row in rows.of("bundle_loads")]
            await cycle.once(running.rules, is_shed_due=False)
        epoch = term.leadership.epoch
        view = term.snapshot_builder.latest
        assert view is not None
    assert first == [str(bundle) for bundle in Ring.even(NAMESPACE, 4).bundles]
    loads = [(at, number, row.bundle) for at, number, row in rows.of("bundle_loads")]
    assert len(loads) == len(set(loads)) == 8
    assert {(at, number) for at, number, _ in loads} == {(epoch, 1), (epoch, 2)}
    assert [row.broker for _, _, row in rows.of("broker_loads")] == [A, B, A, B]
    # Capacities, boundaries and rules are written once, until they change.
    assert [row.broker for _, _, row in rows.of("capacities")] == [A, B]
    assert [(row.namespace, len(row.boundaries)) for _, _, row in rows.of("bundle_boundaries")] == [
        (str(NAMESPACE), 5)
    ]
    assert [number for _, number, _ in rows.of("policy_versions")] == [1]
    ((_, number, memory),) = rows.of("policy_memory")
    assert (number, memory.is_whole) == (1, True)
    assert '"history"' in memory.memory
    times = {at_ms for name, _, number, at_ms, _ in rows.seen if number == 2}
    assert times == {view.taken_at_ms}


async def test_a_policy_is_written_again_when_it_is_another() -> None:
    rows, policies = Rows(), [policy("{}"), policy('{"a":"b"}')]
    view = cluster([broker("b1", 0.5)])
    now = policies[0]
    capture = HistoryRecorder(LeaderHistory(rows, lambda: now), 7)
    await capture.record_view(view, 1)
    await capture.record_view(view, 2)
    now = policies[1]
    await capture.record_view(view, 3)
    assert rows.of("policy_versions") == [(7, 1, policies[0]), (7, 3, policies[1])]


async def test_others_have_a_turn_while_many_bundles_are_written() -> None:
    rows, turns, is_done = Rows(), 0, False
    ring = Ring.even(NAMESPACE, 5_000)
    view = cluster([broker("b1", 0.5, {b: stats(1) for b in ring.bundles})], rings=[ring])

    async def turn() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(turn(), name="others")
        await HistoryRecorder(LeaderHistory(rows, lambda: policy("{}")), 7).record_view(view, 1)
        is_done = True
    assert len(rows.of("bundle_loads")) == 5_000
    assert turns >= 20


@pytest.mark.parametrize(("bundles", "is_whole"), [(3, True), (300, False)])
async def test_a_memory_stays_within_bounds(bundles: int, is_whole: bool) -> None:
    rows = Rows()
    ring = Ring.even(NAMESPACE, bundles)
    view = cluster([broker("b1", 0.5, {b: stats(1) for b in ring.bundles})], rings=[ring])
    capture = HistoryRecorder(LeaderHistory(rows, lambda: policy("{}")), 7)
    capture.record_memory(ThresholdMemory({"b1": 0.25}), view, 4)
    ((epoch, cycle, row),) = rows.of("policy_memory")
    assert (epoch, cycle, row.is_whole) == (7, 4, is_whole)
    assert row.memory == (
        '{"history":{"b1":0.25}}' if is_whole else '{"usage_averages":{"b1":0.25}}'
    )
