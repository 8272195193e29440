"""Moves and splits of a Pulsar cluster: the outcome is what owner nodes say, not the reply."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from broker_ctl.attach import outcome_verifier
from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.cluster import ClusterNodes
from broker_ctl.attach.foreign_balancer import ClusterBalancer
from broker_ctl.attach.metadata_source import MetadataSource
from broker_ctl.attach.pulsar_executor import Attachment
from broker_ctl.balancer.context.decisions import DecisionLog
from broker_ctl.balancer.context.dependencies import BalancerDependencies, LeaderRules, OwnMoves
from broker_ctl.balancer.execution.transfer import CurrentOwner, read_owner
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.clock import SystemClock
from broker_ctl.coordination.directives import Directives
from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.core.cluster.decisions import Assign, Merge, Reason, Split, Transfer
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.errors import (
    AuthorityLost,
    BundleGone,
    BundleMoving,
    ConnectionLoss,
    LeadershipSuspended,
    NoBroker,
    NotOwner,
    OperationTimeout,
    PeerRefused,
    PeerUnreachable,
)
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.watched_cache import CacheRules
from broker_ctl.tasks import TaskScope
from tests.support.clusters.foreign_cluster import DYNAMIC, ForeignCluster, foreign_cluster
from tests.support.time.waiting import PATIENCE_S, eventually

RULES = LeaderRules(LeastLongTermMessageRate(), order_s=0.3, unload_s=0.3, load_s=0.3)
SOME = LoadVector(0.1, 1e6, 1e3, 10)


class Authority:
    is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise AuthorityLost("the test took it away")


@dataclass
class Scene:
    """A simulated Pulsar cluster, and a leader attached to it."""

    cluster: ForeignCluster
    term: LeaderTerm
    moves: OwnMoves
    authority: Authority

    @property
    def ids(self) -> list[str]:
        return [broker.broker_id for broker in self.cluster.brokers]

    @property
    def bundle(self) -> Bundle:
        return min(self.cluster.brokers[0].owned)

    def transfer(self, bundle: Bundle | None = None, to: int = 1, source: int = 0) -> Transfer:
        return Transfer(
            bundle=bundle or self.bundle,
            source=self.ids[source],
            destination=self.ids[to],
            reason=Reason.IMBALANCE,
            detail="it is a test",
            load_vector=SOME,
            source_before=SOME,
            destination_before=SOME,
        )

    def split(self, bundle: Bundle | None = None) -> Split:
        algorithm, wanted = "topic_count_equally_divide", bundle or self.bundle
        return Split(wanted, self.ids[0], algorithm, (), Reason.TOPICS, "it is a test")

    @property
    def recorder(self) -> list[tuple[str, str]]:
        entries = self.term.dependencies.journal.recent(100)
        return [(entry.outcome.result, entry.outcome.detail) for entry in entries]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with (
        foreign_cluster() as cluster,
        HttpClient(timeout_s=0.3, max_body_bytes=1 << 20) as http,
    ):
        store = MemoryStore(cluster.ensemble, "leader")
        await store.start()
        clock, brokers, moves = (
            SystemClock(),
            ForeignBrokers(store, rng=random.Random(1)),
            OwnMoves(),
        )
        nodes = ClusterNodes(store, store, clock, CacheRules(), rng=random.Random(1))
        directives = Directives(store, rng=random.Random(1))
        await brokers.start()
        await nodes.start()
        await directives.start()
        await brokers.wait_synced()
        admin = PulsarAdmin(cluster.urls, http, lambda: brokers.urls, act_timeout_s=0.3)
        source = MetadataSource(store, admin, brokers, clock, max_report_age_s=60.0)
        own = ClusterBalancer(
            admin, clock, acts=True, despite_cluster_balancer=False, source=source
        )
        parts = BalancerDependencies(
            own_id="me",
            store=store,
            registry=brokers,
            moves=moves,
            build_executor=Attachment(admin, own, moves).build_executor,
            clock=clock,
            journal=DecisionLog(),
            rules=lambda: RULES,
            ring_of=nodes.ring_of,
            owner_of=nodes.owner_of,
            directives=directives,
            rng=random.Random(1),
        )
        authority = Authority()
        leadership = Leadership(paths.ATTACH_ELECTION, 7, authority.check)
        yield Scene(cluster, LeaderTerm.of(parts, leadership), moves, authority)
        await directives.close()
        await nodes.close()
        await brokers.close()
        await store.close()


async def test_a_transfer_is_done_when_the_destination_owns_the_bundle(scene: Scene) -> None:
    bundle = scene.bundle
    reply = await scene.term.executor.execute(scene.transfer())
    assert reply == {"bundle": str(bundle), "to": scene.ids[1]}
    assert scene.cluster.owner(bundle) == scene.ids[1]
    assert scene.recorder == [("done", "")]
    assert scene.term.memory.get(bundle).given_to == scene.ids[1]
    assert [settled.throughput_bytes for settled in scene.term.memory.settled()] == [1e6]
    assert scene.moves.all == []


async def test_a_destination_is_claimed_before_the_lookups_of_clients_come(scene: Scene) -> None:
    """The cluster would place it elsewhere, as after two lookups at the same time."""
    scene.cluster.honours, scene.cluster.takes_claims = False, True
    scene.cluster.stray_s, bundle = 0.3, scene.bundle
    reply = await scene.term.executor.execute(scene.transfer())
    assert reply == {"bundle": str(bundle), "to": scene.ids[1]}
    assert scene.cluster.owner(bundle) == scene.ids[1]
    assert scene.cluster.claims[-1] == str(bundle)
    looked_up = len(scene.cluster.claims)
    await scene.cluster.report()
    assert len(scene.cluster.claims) == looked_up, "it goes on after the move"


async def test_a_bundle_is_not_claimed_by_a_process_that_may_not_act_any_more(
    scene: Scene,
) -> None:
    scene.cluster.honours, scene.cluster.takes_claims = False, True
    scene.cluster.stray_s = 0.1
    scene.cluster.gate.clear()
    async with TaskScope("test") as tasks:
        moving = tasks.start(scene.term.executor.execute(scene.transfer()), "move", is_joined=True)
        await eventually(lambda: scene.cluster.asked, what="the unload")
        scene.authority.is_lost = True
        await eventually(lambda: scene.cluster.claims, what="a lookup before it")
        scene.cluster.gate.set()
        with pytest.raises(PeerRefused, match="WentElsewhere"):
            await moving


async def test_a_destination_that_the_cluster_does_not_honour_is_a_failure_that_says_where(
    scene: Scene,
) -> None:
    scene.cluster.honours, bundle = False, scene.bundle
    with pytest.raises(PeerRefused, match="WentElsewhere") as refused:
        await scene.term.executor.execute(scene.transfer())
    assert f"{bundle} went to {scene.ids[2]}" in str(refused.value)
    assert [result for result, _ in scene.recorder] == ["failed"]
    assert scene.term.memory.get(bundle).given_to == scene.ids[2]
    assert scene.moves.misdirected == 1


async def test_a_bundle_that_has_moved_meanwhile_is_left_where_it_is(scene: Scene) -> None:
    bundle = scene.bundle
    await scene.cluster.release(scene.cluster.brokers[0], bundle)
    await scene.cluster.take(scene.cluster.brokers[2], bundle)
    with pytest.raises(NotOwner, match=f"owned by {scene.ids[2]}"):
        await scene.term.executor.execute(scene.transfer(bundle))
    assert scene.cluster.asked == []


async def test_a_bundle_that_is_no_more_is_not_asked_for(scene: Scene) -> None:
    bundle = scene.bundle
    await scene.term.executor.execute(scene.split(bundle))
    scene.cluster.asked.clear()
    with pytest.raises(BundleGone):
        await scene.term.executor.execute(scene.transfer(bundle))
    with pytest.raises(BundleGone):
        await scene.term.executor.execute(scene.split(bundle))
    assert scene.cluster.asked == []


@pytest.mark.parametrize("phase", ["PREPARATION", "COPYING", "COMPLETED"])
async def test_nothing_is_asked_for_from_the_first_phase_of_a_migration_on(
    scene: Scene, phase: str
) -> None:
    assert await scene.term.executor.blocked_reason() == ""
    await scene.cluster.migrate(phase)
    for decision in (scene.transfer(), scene.split()):
        with pytest.raises(PeerRefused, match=r"HeldBack.*oxia://oxia:6648/pulsar"):
            await scene.term.executor.execute(decision)
    assert scene.cluster.asked == []


async def test_a_destination_that_has_gone_is_not_asked_for(scene: Scene) -> None:
    transfer = scene.transfer(to=2)
    await scene.cluster.brokers[2].store.close()
    registry = scene.term.dependencies.registry
    await eventually(lambda: transfer.destination not in registry.peers, what="its end is known")
    with pytest.raises(NoBroker):
        await scene.term.executor.execute(transfer)
    assert scene.cluster.asked == []


async def test_a_refusal_is_raised_with_the_reason_of_the_cluster(scene: Scene) -> None:
    scene.cluster.refuses, bundle = 409, scene.bundle
    with pytest.raises(PeerRefused, match=r"Conflict.*so it is"):
        await scene.term.executor.execute(scene.transfer())
    assert scene.cluster.owner(bundle) == scene.ids[0]


async def test_a_transfer_without_an_answer_is_done_where_the_owner_node_says_so(
    scene: Scene,
) -> None:
    scene.cluster.is_mute, bundle = True, scene.bundle
    reply = await scene.term.executor.execute(scene.transfer())
    assert reply["to"] == scene.ids[1]
    assert scene.cluster.owner(bundle) == scene.ids[1]


async def test_a_transfer_without_an_answer_that_was_not_carried_out_has_failed(
    scene: Scene,
) -> None:
    scene.cluster.gate.clear()
    with pytest.raises(PeerUnreachable):
        await scene.term.executor.execute(scene.transfer())
    scene.cluster.gate.set()
    assert [result for result, _ in scene.recorder] == ["failed"]


async def test_an_unload_after_which_no_broker_takes_the_bundle_is_reported_as_not_taken(
    scene: Scene,
) -> None:
    scene.cluster.abandons = True
    with pytest.raises(PeerRefused, match=r"NotTaken.*has no owner yet"):
        await scene.term.executor.execute(scene.transfer())


async def test_a_bundle_is_moved_once_at_a_time(scene: Scene) -> None:
    transfer = scene.transfer()
    scene.cluster.gate.clear()
    async with TaskScope("test") as tasks:
        first = tasks.start(scene.term.executor.execute(transfer), "first", is_joined=True)
        await eventually(lambda: scene.cluster.asked, what="the first request")
        assert [record.move.to_broker for record in scene.moves.all] == [scene.ids[1]]
        with pytest.raises(BundleMoving):
            await scene.term.executor.execute(scene.transfer(transfer.bundle, to=2))
        scene.cluster.gate.set()
        assert (await first)["to"] == scene.ids[1]


async def test_a_split_answers_with_the_children(scene: Scene) -> None:
    bundle = scene.bundle
    middle = (bundle.range.low + bundle.range.high) // 2
    reply = await scene.term.executor.execute(scene.split())
    assert reply["children"] == [str(child) for child in bundle.cut((middle,))]
    assert scene.cluster.owner(bundle) is None
    assert scene.term.memory.splitting == set()


async def test_a_split_without_an_answer_is_done_where_the_ring_says_so(scene: Scene) -> None:
    scene.cluster.is_mute = True
    assert len((await scene.term.executor.execute(scene.split()))["children"]) == 2


async def test_a_split_that_parts_nothing_is_refused_with_that_reason(scene: Scene) -> None:
    scene.cluster.parts_nothing = True
    with pytest.raises(PeerRefused, match="NothingToSplit"):
        await scene.term.executor.execute(scene.split())


async def test_a_store_that_loses_its_connection_after_a_split_is_asked_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cuts = scene.term.dependencies.store, [ConnectionLoss("the test cut it")]
    sync = store.sync

    async def cut_once_it_was_asked(path: str) -> None:
        if scene.cluster.asked and cuts:
            raise cuts.pop()
        await sync(path)

    monkeypatch.setattr(store, "sync", cut_once_it_was_asked)
    assert len((await scene.term.executor.execute(scene.split()))["children"]) == 2
    assert cuts == []


async def test_a_decision_that_pulsar_has_no_request_for_is_refused(scene: Scene) -> None:
    left, right = sorted(scene.cluster.brokers[0].owned)[-2:]
    merge = Merge(left, right, scene.ids[0], Reason.COLD, "it is a test")
    assign = Assign(left, scene.ids[1], Reason.UNOWNED, "it is a test")
    for decision in (merge, assign):
        with pytest.raises(PeerRefused, match="NotPossible"):
            await scene.term.executor.execute(decision)
    assert scene.cluster.asked == []


async def test_a_balancing_cluster_blocks_the_executor_and_says_what_to_switch_off(
    scene: Scene,
) -> None:
    scene.cluster.running[DYNAMIC[1]] = "true"
    assert await scene.term.executor.execute_all([scene.transfer(), scene.split()]) == {}
    assert [result for result, _ in scene.recorder] == ["held_back", "held_back"]
    assert "--config loadBalancerAutoBundleSplitEnabled --value false" in scene.recorder[0][1]
    with pytest.raises(PeerRefused, match="HeldBack"):
        await scene.term.executor.execute(scene.transfer())
    assert scene.cluster.asked == []


async def test_a_deposed_leader_sends_no_request_to_the_cluster(scene: Scene) -> None:
    scene.authority.is_lost = True
    with pytest.raises(AuthorityLost):
        await scene.term.executor.execute(scene.transfer())
    with pytest.raises(AuthorityLost):
        await scene.term.executor.execute(scene.split())
    assert scene.cluster.asked == []


async def test_a_namespace_without_local_policies_has_the_ring_of_its_policies(
    scene: Scene,
) -> None:
    store = scene.cluster.store
    namespace = Namespace("public", "other")
    data = b'{"bundles":{"boundaries":["0x00000000","0x80000000","0xffffffff"],"numBundles":2}}'
    await store.create(paths.policies(namespace), data, make_parents=True)
    ring = await scene.term.dependencies.ring_of(namespace)
    assert ring.boundaries == (0, 0x80000000, 0xFFFFFFFF)
    assert await store.exists(paths.local_policies(namespace)) is None


async def test_an_owner_that_was_read_before_the_connection_was_lost_is_not_acted_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    leadership = scene.term.leadership

    async def then_cut(store: MetadataStore, bundle: Bundle) -> CurrentOwner | None:
        owner = await read_owner(store, bundle)
        leadership.suspend()
        return owner

    with monkeypatch.context() as patched:
        patched.setattr(outcome_verifier, "read_owner", then_cut)
        for decision in (scene.transfer(), scene.split()):
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(LeadershipSuspended):
                    await scene.term.executor.execute(decision)
            leadership.resume()
    assert scene.cluster.asked == []
    assert (await scene.term.executor.execute(scene.transfer()))["to"] == scene.ids[1]


async def test_an_owner_that_cannot_be_read_is_not_reported_as_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = scene.bundle

    async def until_it_was_asked(store: MetadataStore, bundle: Bundle) -> CurrentOwner | None:
        if scene.cluster.asked:
            raise ConnectionLoss("the test cut it")
        return await read_owner(store, bundle)

    monkeypatch.setattr(outcome_verifier, "read_owner", until_it_was_asked)
    with pytest.raises(OperationTimeout, match=f"{bundle} was asked for, and who owns it now is"):
        await scene.term.executor.execute(scene.transfer())
    assert scene.cluster.owner(bundle) == scene.ids[1]


async def test_equal_ranges_of_two_namespaces_go_one_after_the_other(scene: Scene) -> None:
    """A leader notes the destination of an unload by the range alone, and forgets it when asked."""
    store, cluster, other = scene.cluster.store, scene.cluster, Namespace("public", "other")
    node = await store.get(paths.local_policies(scene.bundle.namespace))
    assert node is not None
    await store.create(paths.local_policies(other), node.data, make_parents=True)
    one, two = scene.bundle, Bundle(other, scene.bundle.range)
    await cluster.take(cluster.brokers[0], two)
    cluster.notes_ranges = True
    moves = [scene.transfer(one, to=1), scene.transfer(two, to=2)]
    done = await scene.term.executor.execute_all(moves)
    assert [done[move]["to"] for move in moves if move in done] == [scene.ids[1], scene.ids[2]]
    assert scene.moves.misdirected == 0
