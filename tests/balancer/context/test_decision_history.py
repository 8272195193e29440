"""The history of decisions that outlives its leader."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest

from broker_ctl.balancer.admin.operations import HistoryFilter
from broker_ctl.balancer.context.decisions import MAX_NODES, MAX_ROWS, DecisionHistory
from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer
from broker_ctl.core.history.rows import JournalEntry, Outcome
from broker_ctl.core.model.load import NO_LOAD as NONE
from broker_ctl.core.model.names import Ring
from broker_ctl.errors import Ambiguous, ConnectionLoss, Fenced
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.retry import Backoff
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Operation
from broker_ctl.tasks import TaskScope
from tests.support.clusters.leader_cluster import NAMESPACE, LeaderCluster, running_cluster
from tests.support.clusters.leading_balancers import leading_at
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import TryingStore

A, B = "a:8080", "b:8080"
MOVE = Transfer(
    Ring.even(NAMESPACE, 8).bundles[0], A, B, Reason.OVERLOADED, "too full", NONE, NONE, NONE
)


def entry(number: int) -> JournalEntry:
    decision = replace(MOVE, detail=f"reason {number}")
    return JournalEntry(1_000 + number, 1, number, decision, Outcome("done"))


def cycles(kept: DecisionHistory) -> list[int]:
    """Their numbers, the newest first."""
    return [row["cycle"] for row in kept.rows([])]


async def keep(
    cluster: LeaderCluster, leader: str, numbers: Sequence[int], store: MetadataStore | None = None
) -> DecisionHistory:
    """The history after a leader with the store has written decisions with these numbers."""
    kept = DecisionHistory(
        store or cluster.brokers[leader].store,
        await cluster.elect(leader),
        rng=random.Random(1),
        backoff=Backoff(0.01, 1.0, 0.01),
    )
    async with TaskScope("leadership") as scope:
        running = scope.start(kept.run(), "keep decisions")
        for number in numbers:
            kept.record(entry(number))
        if numbers:
            await eventually(lambda: running.done() or not kept.pending)
        else:
            await eventually(lambda: running.done() or kept.is_read)
        if running.done():
            await running
    return kept


@in_virtual_time
async def test_the_next_leader_knows_why_a_bundle_moved() -> None:
    async with running_cluster(A, B) as cluster:
        await cluster.create_namespace(8)
        async with leading_at(cluster, A) as balancer:
            term = balancer.term
            assert term is not None
            term.recorder.record(MOVE, Outcome("done"))
            skip = Skip(str(MOVE.bundle), Reason.COOLING_DOWN, "it moved 5 s ago")
            term.recorder.record(skip, Outcome("skipped"))
            await eventually(lambda: not term.decision_history.pending)
        await cluster.kill(A)
        cluster.journal = type(cluster.journal)()  # the next one is another process
        async with leading_at(cluster, B) as balancer:
            wanted = HistoryFilter(bundle=str(MOVE.bundle), kind="transfer")
            (row,) = await eventually(lambda: balancer.operations.history(wanted))
            assert row["sentence"] == MOVE.sentence
            assert "too full" in row["sentence"]
            assert row["result"] == "done"


@in_virtual_time
async def test_decisions_that_are_both_stored_and_in_memory_are_shown_once_in_order() -> None:
    async with running_cluster(A) as cluster:
        kept = await keep(cluster, A, [1, 3])
        remembered = [entry(number) for number in (4, 3, 2, 1)]
        assert [row["cycle"] for row in kept.rows(remembered)] == [4, 3, 2, 1]


@in_virtual_time
async def test_the_oldest_node_goes_as_a_new_one_comes() -> None:
    async with running_cluster(A) as cluster:
        most = MAX_NODES * MAX_ROWS
        await keep(cluster, A, range(500))
        for begin in range(500, most + 300, 500):
            await keep(cluster, A, range(begin, begin + 500))
        kept = await keep(cluster, A, [])
        nodes = await cluster.brokers[A].store.children(paths.DECISIONS)
        assert len(nodes) <= MAX_NODES
        newest = cycles(kept)
        assert newest == sorted(newest, reverse=True)
        assert len(newest) > most // 2
        for name in nodes:
            node = await cluster.brokers[A].store.get(f"{paths.DECISIONS}/{name}")
            assert node is not None
            assert len(node.data) < 1 << 17


@in_virtual_time
async def test_a_deposed_leader_keeps_nothing() -> None:
    async with running_cluster(A, B) as cluster:
        kept = await keep(cluster, A, [1])
        old = DecisionHistory(
            cluster.brokers[A].store, await cluster.elect(A), rng=random.Random(1)
        )
        await cluster.elect(B)
        old.record(entry(2))
        with pytest.raises(Fenced):
            await old.run()
        assert cycles(await keep(cluster, B, [])) == cycles(kept) == [1]


@pytest.mark.parametrize("is_applied", [False, True])
@in_virtual_time
async def test_an_answer_that_is_lost_neither_loses_nor_repeats(*, is_applied: bool) -> None:
    async with running_cluster(A) as cluster:
        await keep(cluster, A, [])
        lost = 0

        async def lose_first(_: Sequence[Operation]) -> None:
            nonlocal lost
            lost += 1
            if lost in {1, 3}:
                raise Ambiguous("the answer was lost") if is_applied else ConnectionLoss("cut")

        trying = TryingStore(cluster.brokers[A].store)
        moment: Callable[[Sequence[Operation]], Awaitable[None]] = lose_first
        trying.after, trying.before = (moment, None) if is_applied else (None, moment)
        store = cast("MetadataStore", trying)
        assert cycles(await keep(cluster, A, [1, 2], store)) == [2, 1]
        assert cycles(await keep(cluster, A, [3], store)) == [3, 2, 1]
        assert cycles(await keep(cluster, A, [])) == [3, 2, 1]


@in_virtual_time
async def test_history_nodes_that_cannot_be_read_are_left_out() -> None:
    async with running_cluster(A) as cluster:
        await keep(cluster, A, [1])
        store = cluster.brokers[A].store
        for number, data in ((7, b"{"), (8, b'{"version":1,"decisions":[{"kind":3}]}')):
            await store.create(paths.decisions(number), data)
        await store.create(f"{paths.DECISIONS}/stranger", b"")
        assert cycles(await keep(cluster, A, [2])) == [2, 1]
        assert await store.exists(paths.decisions(9)) is not None


@in_virtual_time
async def test_a_history_node_that_was_deleted_is_created_again() -> None:
    async with running_cluster(A) as cluster:
        store = cluster.brokers[A].store
        kept = DecisionHistory(
            store, await cluster.elect(A), rng=random.Random(1), backoff=Backoff(0.01, 1.0, 0.01)
        )
        async with TaskScope("leadership") as scope:
            scope.start(kept.run(), "keep decisions")
            kept.record(entry(1))
            await eventually(lambda: not kept.pending)
            await store.delete(paths.decisions(1))
            kept.record(entry(2))
            await eventually(lambda: not kept.pending)
        assert cycles(await keep(cluster, A, [])) == [2]
