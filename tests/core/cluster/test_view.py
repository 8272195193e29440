import pytest

from broker_ctl.core.cluster.decisions import Assign, Merge, Reason, Skip, Split, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.errors import BundleGone, InvalidName
from tests.support.clusters.views import BUNDLES, NAMESPACE, NOW_S, broker, cluster, stats

A, B, C = BUNDLES[:3]
MIDDLE = A.range.low + (A.range.high - A.range.low) // 2


@pytest.fixture
def view() -> ClusterView:
    reports = [broker("b1", 0.6, {A: stats(40), B: stats(20)}), broker("b2", 0.1)]
    return cluster(reports, owners={C: None})


def transfer(view: ClusterView) -> Transfer:
    pair = view.brokers["b1"].expected, view.brokers["b2"].expected
    moved = view.bundles[A].load_vector
    return Transfer(A, "b1", "b2", Reason.OVERLOADED, "why", moved, *pair)


def test_a_transfer_takes_the_load_of_the_bundle_along(view: ClusterView) -> None:
    decision = transfer(view)
    after = view.after(decision)
    assert after.brokers["b1"].expected.usage_ratio == pytest.approx(0.2)
    assert after.brokers["b2"].expected.usage_ratio == pytest.approx(0.5)
    assert after.brokers["b1"].expected == decision.source_after
    assert after.brokers["b2"].expected == decision.destination_after
    assert after.brokers["b1"].owned == {B}
    assert after.brokers["b2"].owned == {A}
    moved = after.bundles[A]
    assert (moved.owner, moved.last_unloaded_s, moved.current) == ("b2", NOW_S, None)


def test_the_view_itself_is_left_alone(view: ClusterView) -> None:
    view.after(transfer(view))
    assert view.bundles[A].owner == "b1"
    assert view.brokers["b1"].owned == {A, B}


def test_an_unload_leaves_the_bundle_to_nobody(view: ClusterView) -> None:
    after = view.after(Unload(A, "b1", Reason.DRAIN, "why"))
    assert after.bundles[A].owner is None
    assert after.brokers["b1"].expected.usage_ratio == pytest.approx(0.2)
    assert after.brokers["b1"].owned == {B}


def test_an_assignment_counts_at_its_receiver_at_once(view: ClusterView) -> None:
    after = view.after(Assign(C, "b2", Reason.UNOWNED, "why"))
    before = view.brokers["b2"].expected
    assert after.brokers["b2"].expected == before + view.bundles[C].load_vector
    assert after.bundles[C].owner == "b2"
    assert after.bundles[C].last_unloaded_s is None


def test_children_stay_with_the_owner_and_share_the_load(view: ClusterView) -> None:
    split = Split(A, "b1", "range_equally_divide", (MIDDLE,), Reason.TOPICS, "why")
    after = view.after(split)
    left, right = A.cut((MIDDLE,))
    assert A not in after.bundles
    assert after.brokers["b1"].owned == {left, right, B}
    assert after.brokers["b1"].expected == view.brokers["b1"].expected
    assert after.is_in_ring(left)
    assert not after.is_in_ring(A)
    for child in (left, right):
        seen = after.bundles[child]
        assert (seen.owner, seen.last_split_s, seen.current) == ("b1", NOW_S, None)
        assert seen.load_vector.usage_ratio == pytest.approx(0.2)
        assert seen.load.short.samples == 0
        assert seen.load.short.throughput == pytest.approx(stats(20).throughput)


def test_children_of_a_child_share_its_load(view: ClusterView) -> None:
    # B does not begin at 0: what counts is how wide the parts are.
    quarter = B.range.low + (B.range.high - B.range.low) // 4
    after = view.after(Split(B, "b1", "specified_positions_divide", (quarter,), Reason.TOPICS, "w"))
    left, right = (after.bundles[child].load_vector.usage_ratio for child in B.cut((quarter,)))
    assert right == pytest.approx(3 * left)
    assert left + right == pytest.approx(view.bundles[B].load_vector.usage_ratio)


def test_a_split_that_the_owner_will_cut_is_taken_for_one_in_the_middle(view: ClusterView) -> None:
    unknown = Split(A, "b1", "topic_count_equally_divide", (), Reason.TOPICS, "why")
    known = Split(A, "b1", "topic_count_equally_divide", (MIDDLE,), Reason.TOPICS, "why")
    assert view.after(unknown) == view.after(known)


def test_a_merge_puts_ring_and_load_together(view: ClusterView) -> None:
    after = view.after(Merge(A, B, "b1", Reason.COLD, "why"))
    whole = after.rings[NAMESPACE].find(A.range.low)
    assert (whole.range.low, whole.range.high) == (A.range.low, B.range.high)
    assert after.brokers["b1"].owned == {whole}
    assert after.bundles[whole].load_vector.usage_ratio == pytest.approx(0.6)
    assert after.bundles[whole].load.short.throughput == pytest.approx(stats(60).throughput)
    assert after.bundles[whole].load.short.samples == 1


def test_a_skip_changes_nothing(view: ClusterView) -> None:
    assert view.after(Skip("cluster", Reason.BELOW_THRESHOLD, "why")) is view


def test_a_split_at_its_own_end_or_of_a_stranger_is_an_error(view: ClusterView) -> None:
    with pytest.raises(InvalidName):
        view.after(Split(A, "b1", "any", (A.range.low,), Reason.TOPICS, "why"))
    other = view.after(Split(A, "b1", "any", (MIDDLE,), Reason.TOPICS, "why"))
    stale = cluster([broker("b1", 0.6, {A: stats(40)})], rings=[other.rings[NAMESPACE]])
    with pytest.raises(BundleGone):
        stale.after(Split(A, "b1", "any", (MIDDLE,), Reason.TOPICS, "why"))


def test_receivers_are_alive_heard_of_and_not_draining() -> None:
    view = cluster(
        [
            broker("b3", 0.1),
            broker("b1", 0.6),
            broker("b2", 0.1, is_draining=True),
            broker("b4", 0.1, age_s=1801),
            broker("b5", 0.1, age_s=1800),
        ]
    )
    assert view.receivers(1800) == ("b1", "b3", "b5")
    assert view.receivers(1800, source="b1") == ("b3", "b5")
