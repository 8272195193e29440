"""Moves that wait for room: they start in the plan's order, and not where the room was not made."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.policy import Memoryless, NoMemory
from broker_ctl.errors import PeerRefused
from tests.support.clusters.in_memory_broker import even_traffic
from tests.support.clusters.leader_cluster import NAMESPACE, QUICK, LeaderCluster, running_cluster
from tests.support.clusters.leader_cycles import cycle_of

A, B, C = "a:8080", "b:8080", "c:8080"
FIRST, SECOND, THIRD = Ring.even(NAMESPACE, 3).bundles
BYTES: Final = {FIRST: 3e8, SECOND: 4e8, THIRD: 1e8}


@dataclass(frozen=True)
class Rotation(Memoryless):
    """Everything goes to the next broker, as by a daily profile; b has no room before c does."""

    def shed(
        self, view: ClusterView, memory: NoMemory, rules: SheddingRules
    ) -> tuple[Decision, ...]:
        del memory, rules
        return (move(view, FIRST, A, B), move(view, SECOND, B, C))


def move(view: ClusterView, bundle: Bundle, source: str, destination: str) -> Transfer:
    return Transfer(
        bundle=bundle,
        source=source,
        destination=destination,
        reason=Reason.PROFILE,
        detail="rotated",
        load_vector=view.bundles[bundle].load_vector,
        source_before=view.brokers[source].expected,
        destination_before=view.brokers[destination].expected,
    )


def traffic(bundle: Bundle) -> BundleStats:
    return even_traffic(BYTES[bundle])


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C, traffic=traffic) as running:
        await running.create_namespace(3)
        running.rules = replace(QUICK, shedding=Rotation())
        for bundle, broker_id in ((FIRST, A), (SECOND, B), (THIRD, C)):
            await running.brokers[broker_id].acquire(bundle)
        yield running


def outcomes(cluster: LeaderCluster) -> list[tuple[str, str]]:
    """Bundle and result of each move, in the order in which they ended."""
    found = [
        (str(entry.decision.bundles[0]), entry.outcome.result)
        for entry in cluster.journal.recent(10)
        if entry.decision.kind == "transfer"
    ]
    return found[::-1]


async def test_a_move_starts_when_the_one_that_makes_room_for_it_has_ended(
    cluster: LeaderCluster,
) -> None:
    async with cluster.term(A) as term:
        await cluster.synced(term)
        plan = await cycle_of(term).once(cluster.rules)
    assert [each.bundles[0] for each in plan.decisions] == [SECOND, FIRST]
    assert plan.order.highest == plan.order.ceiling == pytest.approx(0.5)
    assert outcomes(cluster) == [(str(SECOND), "done"), (str(FIRST), "done")]
    sent = cluster.peers.sent
    # A receiver is asked before a source releases.
    assert sent.index(f"prepare {B}") > sent.index(f"receive {C}")


async def test_a_move_is_held_back_where_the_room_was_not_made(cluster: LeaderCluster) -> None:
    cluster.peers.refusals[B, "release"].append(PeerRefused("UnloadFailed", "topics are open"))
    async with cluster.term(A) as term:
        await cluster.synced(term)
        await cycle_of(term).once(cluster.rules)
    assert outcomes(cluster) == [(str(SECOND), "failed"), (str(FIRST), "held_back")]
    (held, *_) = cluster.journal.recent(1)
    assert held.outcome.detail == f"{SECOND} was to make room for it, and did not leave"
    assert list(cluster.brokers[A].serving) == [FIRST]
