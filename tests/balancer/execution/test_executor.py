import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Reason, Skip, Split, Transfer
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import AuthorityLost, Fenced, NotOwner, PeerError, PeerRefused
from broker_ctl.lab.time import ManualClock
from broker_ctl.tasks import TaskScope
from tests.support.clusters.in_memory_broker import read_ring
from tests.support.clusters.in_memory_peers import AFTER, BEFORE
from tests.support.clusters.leader_cluster import NAMESPACE, LeaderCluster, running_cluster
from tests.support.daemon.kept_spans import KeptSpan
from tests.support.time.waiting import eventually

A, B, C = "a:8080", "b:8080", "c:8080"


def transfer(bundle: Bundle, source: str = A, destination: str = B) -> Transfer:
    moved = LoadVector(0.1, 1e7)
    before = LoadVector(0.5, 5e7)
    return Transfer(
        bundle, source, destination, Reason.OVERLOADED, "why", moved, before, LoadVector()
    )


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B, C) as running:
        yield running


@pytest.fixture
async def bundle(cluster: LeaderCluster) -> Bundle:
    """Owned by A."""
    ring = await cluster.create_namespace(4)
    await cluster.brokers[A].acquire(ring.bundles[0])
    return ring.bundles[0]


def results(cluster: LeaderCluster) -> list[str]:
    return [entry.outcome.result for entry in reversed(cluster.journal.recent(20))]


async def assert_settled(cluster: LeaderCluster, bundle: Bundle, *owners: str) -> None:
    """Exactly one of ``owners`` serves it, by its node, and no record is left."""
    owner = await cluster.owner(bundle)
    assert owner in owners
    assert cluster.serving_checker.servers_of(bundle) == [owner]
    assert cluster.serving_checker.faults == []
    assert await cluster.record_count() == 0


async def test_a_transfer_moves_the_bundle_and_ends_its_record(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    async with cluster.term(A) as term:
        await term.executor.execute_all([transfer(bundle)])
        assert cluster.peers.sent == [f"prepare {B}", f"release {A}", f"receive {B}"]
        assert results(cluster) == ["done"]
        assert term.memory.get(bundle).given_to == B
        assert [settled.throughput_bytes for settled in term.memory.settled()] == [1e7]
    await assert_settled(cluster, bundle, B)


async def test_a_suspended_leader_orders_nothing_and_goes_on_where_it_was(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cut = cluster.peers.cut_at("prepare", AFTER)
    async with cluster.term(A) as term, TaskScope("test") as tasks:
        work = tasks.start(term.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
        term.leadership.suspend()
        cluster.peers.heal()
        cut.resumed.set()
        await asyncio.sleep(0.1)
        assert cluster.peers.sent == [f"prepare {B}"]
        assert cluster.serving_checker.servers_of(bundle) == [A]
        term.leadership.resume()
        await work
        assert results(cluster) == ["done"]
    await assert_settled(cluster, bundle, B)


async def test_a_receiver_that_refuses_leaves_the_bundle_where_it_is(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.peers.refusals[B, "prepare"].append(PeerRefused("Draining", "on its way down"))
    async with cluster.term(A) as term:
        with pytest.raises(PeerRefused, match="on its way down"):
            await term.executor.execute(transfer(bundle))
        assert term.memory.get(bundle).unloaded_s is None
    assert results(cluster) == ["failed"]
    await assert_settled(cluster, bundle, A)


async def test_a_source_that_cannot_close_keeps_the_bundle(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.peers.refusals[A, "release"].append(PeerRefused("UnloadFailed", "topics are open"))
    async with cluster.term(A) as term:
        with pytest.raises(PeerRefused, match="topics are open"):
            await term.executor.execute(transfer(bundle))
        assert term.memory.get(bundle).unloaded_s is not None
    await assert_settled(cluster, bundle, A)


@pytest.mark.parametrize("verb", ["release", "receive"])
@pytest.mark.parametrize("phase", [BEFORE, AFTER])
async def test_a_lost_answer_is_decided_by_looking(
    cluster: LeaderCluster, bundle: Bundle, verb: str, phase: str
) -> None:
    cluster.peers.losses[phase, verb] = 1
    async with cluster.term(A) as term:
        await term.executor.execute_all([transfer(bundle)])
    # Only a release that never arrived leaves the bundle where it was.
    stays = (verb, phase) == ("release", BEFORE)
    assert results(cluster) == ["failed" if stays else "done"]
    await assert_settled(cluster, bundle, A if stays else B)


async def test_a_receiver_that_dies_is_replaced(cluster: LeaderCluster, bundle: Bundle) -> None:
    cut = cluster.peers.cut_at("receive", BEFORE)
    async with cluster.term(A) as term, TaskScope("test") as tasks:
        work = tasks.start(term.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
        cluster.peers.heal()
        await cluster.kill(B)
        await eventually(lambda: not term.dependencies.can_receive(B))
        await work
    assert cluster.peers.sent.count(f"receive {B}") == 1
    assert results(cluster) == ["done"]
    await assert_settled(cluster, bundle, A, C)


async def test_a_move_whose_source_died_waits_out_the_grace_of_its_session(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.rules = replace(cluster.rules, reclaim_grace_s=2.0)
    reclaimable = PeerRefused("BundleReclaimable", "only its former owner may take it")
    cluster.peers.refusals[B, "receive"] += [reclaimable] * 3
    async with cluster.term(A) as term:
        await term.executor.execute_all([transfer(bundle)])
    assert cluster.peers.sent.count(f"receive {B}") == 4
    await assert_settled(cluster, bundle, B)


async def test_a_receiver_that_keeps_refusing_is_replaced(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.peers.refusals[B, "receive"] += [PeerRefused("Draining", "no")] * 9
    async with cluster.term(A) as term:
        await term.executor.execute_all([transfer(bundle)])
    assert cluster.peers.sent.count(f"receive {B}") == 2
    await assert_settled(cluster, bundle, A, C)


async def test_where_nobody_can_receive_the_bundle_is_left_to_the_next_placement(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    for broker_id in (A, B, C):
        refusal = PeerRefused("DataPlaneRefused", "full")
        cluster.peers.refusals[broker_id, "receive"] += [refusal] * 2
    async with cluster.term(A) as term:
        await term.executor.execute_all([transfer(bundle)])
    assert results(cluster) == ["failed"]
    assert await cluster.owner(bundle) is None
    assert await cluster.record_count() == 0


@pytest.mark.parametrize("verb", ["prepare", "release", "receive"])
@pytest.mark.parametrize("phase", [BEFORE, AFTER])
async def test_wherever_the_leader_is_killed_the_next_one_ends_the_move(
    cluster: LeaderCluster, bundle: Bundle, verb: str, phase: str
) -> None:
    cut = cluster.peers.cut_at(verb, phase)
    async with cluster.term(A) as first, TaskScope("first leader") as tasks:
        tasks.start(first.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
    cluster.peers.heal()
    async with cluster.term(C) as second:
        await second.executor.adopt()
    await assert_settled(cluster, bundle, A, B)


async def test_a_move_that_is_taken_over_goes_on_in_the_trace_of_its_first_leader(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.tracer = tracer = KeptSpan()
    cut = cluster.peers.cut_at("release", BEFORE)
    async with cluster.term(A) as first, TaskScope("first leader") as tasks:
        tasks.start(first.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
    cluster.peers.heal()
    async with cluster.term(C) as second:
        await second.executor.adopt()
    assert [(one.name, one.parent) for one in tracer.children] == [
        ("decision transfer", ""),
        ("decision transfer", "of decision transfer"),
    ]
    assert [one.name for one in tracer.children[0].children] == ["move"]


@pytest.mark.parametrize("verb", ["prepare", "release", "receive"])
@pytest.mark.parametrize("phase", [BEFORE, AFTER])
async def test_an_old_leader_that_wakes_up_changes_nothing_any_more(
    cluster: LeaderCluster, bundle: Bundle, verb: str, phase: str
) -> None:
    """It was paused while a command was on its way, and not killed."""
    cluster.rules = replace(cluster.rules, order_s=5.0)
    cut = cluster.peers.cut_at(verb, phase)
    async with cluster.term(A) as first, TaskScope("first leader") as tasks:
        work = tasks.start(first.executor.execute_all([transfer(bundle)]), "move", is_joined=True)
        await cut.reached.wait()
        cluster.peers.heal()
        async with cluster.term(C) as second:
            await second.executor.adopt()
        owner = await cluster.owner(bundle)
        cut.resumed.set()
        await asyncio.wait([work])
        await assert_settled(cluster, bundle, str(owner))
        back = transfer(bundle, str(owner), B if owner == A else A)
        with pytest.raises(ExceptionGroup) as caught:
            await first.executor.execute_all([back])
        assert caught.group_contains(Fenced)
    await assert_settled(cluster, bundle, str(owner))


async def test_a_bundle_that_has_gone_elsewhere_is_not_moved(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    async with cluster.term(A) as term:
        with pytest.raises(NotOwner, match=A):
            await term.executor.execute(transfer(bundle, source=C))
    assert cluster.peers.sent == []
    await assert_settled(cluster, bundle, A)


async def test_without_authority_nothing_is_begun(cluster: LeaderCluster, bundle: Bundle) -> None:
    async with cluster.term(A) as term:
        cluster.has_authority = False
        with pytest.raises(AuthorityLost):
            await term.executor.execute(transfer(bundle))
    assert cluster.peers.sent == []
    await assert_settled(cluster, bundle, A)


async def test_an_old_leader_that_finds_its_move_taken_over_gives_no_more_orders(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.rules = replace(cluster.rules, order_s=5.0)
    async with cluster.term(A) as first, TaskScope("test") as tasks:
        old_cut = cluster.peers.cut_at("receive", BEFORE)
        old = tasks.start(first.executor.execute(transfer(bundle)), "old", is_joined=True)
        await old_cut.reached.wait()
        new_cut = cluster.peers.cut_at("receive", BEFORE)
        async with cluster.term(C) as second:
            new = tasks.start(second.executor.adopt(), "new", is_joined=True)
            await new_cut.reached.wait()
            orders = len(cluster.peers.sent)
            cluster.peers.losses[BEFORE, "receive"] = 1
            old_cut.resumed.set()
            with pytest.raises(Fenced, match="driven at epoch"):
                await old
            assert len(cluster.peers.sent) == orders
            new_cut.resumed.set()
            await new
    await assert_settled(cluster, bundle, B)


async def test_a_move_that_is_being_driven_is_not_adopted(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.rules = replace(cluster.rules, order_s=5.0)
    cut = cluster.peers.cut_at("prepare", AFTER)
    async with cluster.term(A) as term, TaskScope("test") as tasks:
        work = tasks.start(term.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
        await term.executor.adopt()
        cut.resumed.set()
        await work
    assert results(cluster) == ["done"]
    await assert_settled(cluster, bundle, B)


async def test_when_authority_ends_during_a_move_no_further_order_is_given(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cluster.rules = replace(cluster.rules, order_s=5.0)
    cut = cluster.peers.cut_at("prepare", AFTER)
    async with cluster.term(A) as term, TaskScope("test") as tasks:
        work = tasks.start(term.executor.execute(transfer(bundle)), "move", is_joined=True)
        await cut.reached.wait()
        cluster.has_authority = False
        cut.resumed.set()
        with pytest.raises(AuthorityLost):
            await work
    assert cluster.peers.sent == [f"prepare {B}"]
    cluster.has_authority = True
    cluster.peers.heal()
    async with cluster.term(C) as following:
        await following.executor.adopt()
    await assert_settled(cluster, bundle, A)


async def test_a_move_record_that_the_receiver_ended_leaves_nothing_to_adopt(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cut = cluster.peers.cut_at("receive", AFTER)
    async with cluster.term(A) as term, TaskScope("test") as tasks:
        tasks.start(term.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
        cluster.peers.heal()
        # The receiver has ended the record; a leader that starts over finds nothing to do.
        assert await cluster.record_count() == 0
        async with cluster.term(C) as second:
            await second.executor.adopt()
    await assert_settled(cluster, bundle, B)


async def test_a_record_that_was_left_behind_is_taken_up_by_the_same_leader(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cut = cluster.peers.cut_at("receive", BEFORE)
    async with cluster.term(A) as term:
        async with TaskScope("a driver that ends in between") as tasks:
            tasks.start(term.executor.execute_all([transfer(bundle)]), "move")
            await cut.reached.wait()
        cluster.peers.heal()
        assert await cluster.owner(bundle) is None
        await term.executor.adopt()
    await assert_settled(cluster, bundle, B)


async def test_a_split_is_ordered_from_the_owner(cluster: LeaderCluster, bundle: Bundle) -> None:
    middle = (bundle.range.low + bundle.range.high) // 2
    split = Split(bundle, A, "range_equally_divide", (middle,), Reason.TOPICS, "why")
    async with cluster.term(B) as term:
        await term.executor.execute_all([split])
        assert term.memory.splitting == set()
    assert results(cluster) == ["done"]
    assert set(cluster.brokers[A].serving) == set(bundle.cut((middle,)))
    assert cluster.serving_checker.faults == []


async def test_a_split_that_the_owner_refuses_is_written_down(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    split = Split(bundle, C, "range_equally_divide", (), Reason.TOPICS, "why")
    async with cluster.term(B) as term:
        with pytest.raises(PeerError, match="not owned"):
            await term.executor.execute(split)
    assert results(cluster) == ["failed"]
    await assert_settled(cluster, bundle, A)


async def test_a_split_refused_for_a_hot_topic_is_remembered_for_a_while(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    said = "97% of its traffic is that of persistent://public/default/x"
    clock = ManualClock()
    cluster.clock = clock
    cluster.peers.refusals[A, "split"].append(PeerRefused("HotTopic", said))
    split = Split(bundle, A, "traffic_equally_divide", (), Reason.BROKER_SHARE, "why")
    async with cluster.term(B) as term:
        await term.executor.execute_all([split])
        await cluster.synced(term)
        view = await term.snapshot_builder.build()
        assert view.bundles[bundle].hot_topic == said
        clock.time_s += 601
        view = await term.snapshot_builder.build()
        assert view.bundles[bundle].hot_topic == ""
    # That it cannot be split is an answer: no alert for failed decisions.
    (entry,) = cluster.journal.recent(20)
    assert entry.outcome.result == "skipped"
    assert isinstance(entry.decision, Skip)
    assert (entry.decision.subject, entry.decision.reason) == (str(bundle), Reason.HOT_TOPIC)
    # Once, and without the name of an error's class.
    assert (entry.decision.detail, entry.outcome.detail) == (said, "")


@pytest.fixture
async def pair(cluster: LeaderCluster, bundle: Bundle) -> Merge:
    """Both are A's."""
    right = (await read_ring(cluster.brokers[A].store, NAMESPACE)).bundles[1]
    await cluster.brokers[A].acquire(right)
    return Merge(bundle, right, A, Reason.COLD, "why")


async def test_a_merge_is_ordered_from_the_owner(cluster: LeaderCluster, pair: Merge) -> None:
    whole = pair.left.joined(pair.right)
    async with cluster.term(B) as term:
        done = await term.executor.execute_all([pair])
        assert [reply["bundle"] for reply in done.values()] == [str(whole)]
        assert term.memory.splitting == set()
        # With a time of its last split it is neither split nor merged again at once.
        assert term.memory.get(whole).split_s is not None
    assert results(cluster) == ["done"]
    await assert_settled(cluster, whole, A)


async def test_while_a_merge_is_not_answered_nothing_is_planned_with_either(
    cluster: LeaderCluster, pair: Merge
) -> None:
    cut = cluster.peers.cut_at("merge", BEFORE)
    async with cluster.term(B) as term, TaskScope("test") as tasks:
        work = tasks.start(term.executor.execute_all([pair]), "merge", is_joined=True)
        await cut.reached.wait()
        assert term.memory.splitting == set(pair.bundles)
        cut.resumed.set()
        await work
        assert term.memory.splitting == set()


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
async def test_wherever_the_leader_is_killed_a_merge_is_done_or_it_is_not(
    cluster: LeaderCluster, pair: Merge, phase: str
) -> None:
    cut = cluster.peers.cut_at("merge", phase)
    async with cluster.term(A) as first, TaskScope("first leader") as tasks:
        tasks.start(first.executor.execute_all([pair]), "merge")
        await cut.reached.wait()
    cluster.peers.heal()
    async with cluster.term(C) as second:
        await second.executor.adopt()
    left = {pair.left.joined(pair.right)} if phase == AFTER else set(pair.bundles)
    assert set(cluster.brokers[A].serving) == left
    assert cluster.serving_checker.faults == []


async def test_an_old_leader_merges_nothing_any_more(cluster: LeaderCluster, pair: Merge) -> None:
    async with cluster.term(B) as old:
        await cluster.elect(C)
        with pytest.raises(PeerRefused):
            await old.executor.execute(pair)
    assert results(cluster) == ["failed"]
    assert set(cluster.brokers[A].serving) == set(pair.bundles)


async def test_a_merge_of_what_has_moved_is_refused(cluster: LeaderCluster, pair: Merge) -> None:
    async with cluster.term(B) as term:
        await term.executor.execute_all([transfer(pair.right)])
        with pytest.raises(PeerError, match="not served"):
            await term.executor.execute(pair)
    assert results(cluster) == ["done", "failed"]
    assert cluster.serving_checker.faults == []


async def test_an_assignment_is_taken_only_at_the_newest_epoch(cluster: LeaderCluster) -> None:
    free = (await cluster.create_namespace(4)).bundles[1]
    assign = Assign(free, C, Reason.UNOWNED, "why")
    async with cluster.term(A) as old:
        await cluster.elect(B)
        with pytest.raises(PeerRefused, match="Fenced"):
            await old.executor.execute(assign)
        assert await cluster.owner(free) is None
    async with cluster.term(B) as term:
        await term.executor.execute(assign)
    await assert_settled(cluster, free, C)


async def test_one_failure_does_not_stop_the_others(cluster: LeaderCluster, bundle: Bundle) -> None:
    free = (await read_ring(cluster.brokers[A].store, NAMESPACE)).bundles[2]
    decisions: list[Action] = [
        transfer(bundle, source=C),
        Assign(free, B, Reason.UNOWNED, "why"),
    ]
    async with cluster.term(A) as term:
        await term.executor.execute_all(decisions)
    assert sorted(results(cluster)) == ["done", "failed"]
    await assert_settled(cluster, free, B)


async def test_an_owner_node_that_vanishes_during_the_move_leaves_one_owner(
    cluster: LeaderCluster, bundle: Bundle
) -> None:
    cut = cluster.peers.cut_at("release", BEFORE)
    async with cluster.term(C) as term, TaskScope("test") as tasks:
        work = tasks.start(term.executor.execute_all([transfer(bundle)]), "move")
        await cut.reached.wait()
        await cluster.kill(A)
        cluster.peers.heal()
        await work
    await assert_settled(cluster, bundle, B)
