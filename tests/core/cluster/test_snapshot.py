from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Reason, Split, Transfer
from broker_ctl.core.cluster.snapshot import in_order, snapshot
from broker_ctl.core.cluster.view import BundleView, ClusterView, InFlight
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.load import NO_LOAD, BundleLoad
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.rules.leader_rules import MIB
from tests.support.clusters.views import BUNDLES, NAMESPACE, RING, Facts, broker, cluster, stats

A, B, C = BUNDLES[:3]


def usages(view: ClusterView) -> Mapping[str, float]:
    return {broker_id: b.expected.usage_ratio for broker_id, b in view.brokers.items()}


def test_without_moves_a_broker_is_what_it_reported() -> None:
    view = cluster([broker("b1", 0.6, {A: stats(40), B: stats(20)}), broker("b2", 0.1)])
    assert usages(view) == pytest.approx({"b1": 0.6, "b2": 0.1})
    assert view.brokers["b1"].owned == {A, B}
    assert view.brokers["b1"].expected.throughput_bytes == pytest.approx(60 * MIB)
    assert view.brokers["b1"].expected.msg_rate == pytest.approx(6000)
    assert view.brokers["b1"].expected.topics == 20


def test_usage_is_divided_among_bundles_by_their_bytes() -> None:
    view = cluster([broker("b1", 0.6, {A: stats(40), B: stats(20)})])
    assert view.bundles[A].load_vector.usage_ratio == pytest.approx(0.4)
    assert view.bundles[B].load_vector.usage_ratio == pytest.approx(0.2)


def test_a_move_in_flight_counts_as_arrived() -> None:
    view = cluster(
        [broker("b1", 0.6, {A: stats(40), B: stats(20)}), broker("b2", 0.1, {C: stats(10)})],
        moves=[InFlight(A, "b1", "b2")],
    )
    assert usages(view) == pytest.approx({"b1": 0.2, "b2": 0.5})
    assert view.brokers["b2"].owned == {A, C}
    assert view.bundles[A].owner == "b1"


def test_a_move_that_no_report_shows_yet_counts_as_arrived() -> None:
    reports = [broker("b1", 0.6, {A: stats(40), B: stats(20)}), broker("b2", 0.1)]
    view = cluster(reports, owners={A: "b2"})
    assert usages(view) == pytest.approx({"b1": 0.2, "b2": 0.5})
    assert view.bundles[A].current is None


def test_a_move_that_only_the_receiver_reports_is_not_counted_twice() -> None:
    reports = [
        broker("b1", 0.6, {A: stats(40), B: stats(20)}, age_s=60),
        broker("b2", 0.5, {C: stats(10), A: stats(40)}),
    ]
    view = cluster(reports, owners={A: "b2"})
    assert usages(view) == pytest.approx({"b1": 0.2, "b2": 0.5})
    assert view.bundles[A].current == stats(40)


def test_a_move_that_both_report_needs_no_correction() -> None:
    reports = [broker("b1", 0.2, {B: stats(20)}), broker("b2", 0.5, {C: stats(10), A: stats(40)})]
    assert usages(cluster(reports)) == pytest.approx({"b1": 0.2, "b2": 0.5})


def test_a_released_bundle_weighs_what_the_freshest_report_says() -> None:
    reports = [
        broker("b1", 0.6, {A: stats(40), B: stats(20)}, age_s=60),
        broker("b2", 0.9, {A: stats(30)}, age_s=5),
        broker("b3", 0.2, {A: stats(10)}, age_s=30),
    ]
    view = cluster(reports, owners={A: None})
    assert view.bundles[A].load_vector.usage_ratio == pytest.approx(0.9)


def test_a_released_bundle_is_counted_nowhere() -> None:
    view = cluster([broker("b1", 0.6, {A: stats(40), B: stats(20)})], owners={A: None})
    assert usages(view) == pytest.approx({"b1": 0.2})
    assert view.bundles[A].load_vector.usage_ratio == pytest.approx(0.4)


def test_an_unreported_bundle_costs_what_a_byte_costs_on_average() -> None:
    view = cluster([broker("b1", 0.5, {A: stats(50)}), broker("b2", 0.0)], owners={B: "b2"})
    default_bytes = 100_000
    assert usages(view)["b2"] == pytest.approx(0.5 * default_bytes / (50 * MIB))


def test_the_parent_of_a_split_is_taken_off_and_its_children_are_counted() -> None:
    parent = BUNDLES[0]
    middle = parent.range.low + (parent.range.high - parent.range.low) // 2
    left, right = parent.cut((middle,))
    view = cluster(
        [broker("b1", 0.6, {parent: stats(60)})],
        owners={parent: None, left: "b1", right: "b1"},
        rings=[RING.split(parent, (middle,))],
    )
    assert view.brokers["b1"].owned == {left, right}
    assert 0 < usages(view)["b1"] < 0.01


def test_an_owner_that_is_not_alive_is_not_a_broker_of_the_view() -> None:
    view = cluster([broker("b1", 0.2, {A: stats(20)})], owners={B: "ghost"})
    assert set(view.brokers) == {"b1"}
    assert view.bundles[B].owner == "ghost"


def test_a_broker_without_traffic_has_no_share_to_give() -> None:
    view = cluster([broker("b1", 0.3, {A: stats(0)})], owners={A: None})
    assert usages(view) == {"b1": pytest.approx(0.3)}


owners = st.lists(st.sampled_from(["b1", "b2", "b3"]), min_size=16, max_size=16)
traffic = st.lists(st.floats(1, 500), min_size=16, max_size=16)


@given(traffic, owners, owners)
def test_the_load_of_the_cluster_is_kept_wherever_bundles_went_since(
    mib: list[float], reported_by: list[str], owned_by: list[str]
) -> None:
    reported = list(zip(BUNDLES, reported_by, mib, strict=True))
    lines = {
        broker_id: {bundle: load for bundle, reporter, load in reported if reporter == broker_id}
        for broker_id in ("b1", "b2", "b3")
    }
    reports = [
        broker(broker_id, sum(loads.values()) / 1000, {b: stats(x) for b, x in loads.items()})
        for broker_id, loads in lines.items()
    ]
    view = cluster(reports, owners=dict(zip(BUNDLES, owned_by, strict=True)))
    for broker_id, b in view.brokers.items():
        now = [x for owner, x in zip(owned_by, mib, strict=True) if owner == broker_id]
        assert b.expected.usage_ratio == pytest.approx(sum(now) / 1000, abs=1e-9)
    assert cluster(reversed(reports), owners=dict(zip(BUNDLES, owned_by, strict=True))) == view


def test_bundles_are_in_order_whatever_order_they_come_in() -> None:
    bundles = Ring.even(NAMESPACE, 1000).bundles
    reports = [broker("b1", 0.5, dict.fromkeys(bundles[:600], stats(1))), broker("b2", 0.1)]
    seen = [BundleView(bundle, "b1", BundleLoad.unseen()) for bundle in reversed(bundles)]
    policies = Constraints(domain_of={"b1": "r1"})
    view = snapshot(
        epoch=1, taken_at_s=2.0, draw_seed=3, brokers=reports, bundles=seen, constraints=policies
    )
    assert list(view.bundles) == list(bundles)
    assert view.constraints is policies


def test_measuring_leaves_all_other_facts_of_a_bundle_alone() -> None:
    """It is built field by field: a new field has to be carried over."""
    seen = BundleView(
        A, "b1", BundleLoad.unseen(), last_unloaded_s=1.0, last_split_s=2.0, last_released_s=3.0
    )
    seen = replace(seen, hot_topic="most of it is x")
    view = snapshot(
        epoch=1, taken_at_s=2.0, draw_seed=3, brokers=[broker("b1", 0.1)], bundles=[seen]
    )
    assert replace(view.bundles[A], current=None, load_vector=NO_LOAD) == seen
    facts = {field.name for field in fields(BundleView)} - {"current", "load_vector"}
    assert facts == {
        "bundle",
        "owner",
        "load",
        "last_unloaded_s",
        "last_split_s",
        "hot_topic",
        "last_released_s",
    }


def test_bundles_are_counted_by_namespace_wherever_they_go() -> None:
    other = Ring.even(Namespace("t", "x"), 1).bundles[0]
    reports = [broker("b1", 0.6, {A: stats(1), B: stats(1), other: stats(1)}), broker("b2", 0.1)]
    view = cluster(reports, owners={C: None}, moves=[InFlight(B, "b1", "b2")])

    def served(of: ClusterView, broker_id: str) -> Mapping[Namespace, int]:
        return of.brokers[broker_id].served

    assert served(view, "b1") == {NAMESPACE: 1, other.namespace: 1}
    assert served(view, "b2") == {NAMESPACE: 1}
    none = NO_LOAD
    moved = view.after(Transfer(other, "b1", "b2", Reason.ADMIN, "", none, none, none))
    assert served(moved, "b1") == {NAMESPACE: 1}
    assert served(moved, "b2") == {NAMESPACE: 1, other.namespace: 1}
    assigned = moved.after(Assign(C, "b1", Reason.UNOWNED, ""))
    assert served(assigned, "b1") == {NAMESPACE: 2}
    middle = (A.range.low + A.range.high) // 2
    split = assigned.after(Split(A, "b1", "any", (middle,), Reason.TOPICS, ""))
    assert served(split, "b1") == {NAMESPACE: 3}


def two_sizes(**facts: Unpack[Facts]) -> ClusterView:
    """Half of a broker of half the size, and half of one three times as large."""
    return cluster(
        [
            replace(broker("b1", 0.5, {A: stats(30), B: stats(20)}), size_ratio=0.5),
            replace(broker("b2", 0.5, {C: stats(150)}), size_ratio=1.5),
        ],
        **facts,
    )


def test_the_footprint_of_a_bundle_is_that_on_a_mean_broker() -> None:
    view = two_sizes()
    taken = [view.bundles[bundle].load_vector.usage_ratio for bundle in (A, B, C)]
    assert taken == pytest.approx([0.15, 0.10, 0.75])
    assert usages(view) == pytest.approx({"b1": 0.5, "b2": 0.5})


def test_a_bundle_takes_another_part_of_a_broker_of_another_size() -> None:
    """30 % of the small one are 10 % of the large one, in flight or not yet reported."""
    expected = pytest.approx({"b1": 0.2, "b2": 0.6})
    assert usages(two_sizes(moves=[InFlight(A, "b1", "b2")])) == expected
    assert usages(two_sizes(owners={A: "b2"})) == expected
    none = NO_LOAD
    moved = two_sizes().after(Transfer(A, "b1", "b2", Reason.ADMIN, "", none, none, none))
    assert usages(moved) == expected


def test_a_bundle_that_nobody_reports_costs_what_a_byte_costs_of_a_mean_broker() -> None:
    """0.25 and 0.45 mean brokers in all for 200 MiB/s."""
    small = replace(broker("b1", 0.5, {A: stats(50)}), size_ratio=0.5)
    large = replace(broker("b2", 0.3, {C: stats(150)}), size_ratio=1.5)
    view = cluster([small, large], owners={B: "b1"})
    default_bytes = 100_000
    usage = 0.7 * default_bytes / (200 * MIB)
    assert view.bundles[B].load_vector.usage_ratio == pytest.approx(usage)
    assert usages(view)["b1"] == pytest.approx(0.5 + usage / 0.5)


@given(traffic, owners, owners, st.lists(st.sampled_from([0.5, 1.0, 1.5]), min_size=3, max_size=3))
def test_among_brokers_of_several_sizes_the_load_is_kept_as_well(
    mib: list[float], reported_by: list[str], owned_by: list[str], sizes: list[float]
) -> None:
    """1000 MiB/s are a mean broker."""
    reported = list(zip(BUNDLES, reported_by, mib, strict=True))
    size_of = dict(zip(("b1", "b2", "b3"), sizes, strict=True))
    reports = []
    for broker_id, size in size_of.items():
        lines = {bundle: stats(load) for bundle, by, load in reported if by == broker_id}
        load = sum(load for _, by, load in reported if by == broker_id)
        reports.append(replace(broker(broker_id, load / 1000 / size, lines), size_ratio=size))
    view = cluster(reports, owners=dict(zip(BUNDLES, owned_by, strict=True)))
    for broker_id, b in view.brokers.items():
        now = sum(x for owner, x in zip(owned_by, mib, strict=True) if owner == broker_id)
        assert b.expected.usage_ratio == pytest.approx(now / 1000 / size_of[broker_id], abs=1e-9)


def test_bundles_are_in_order_though_a_parent_overlaps_its_children() -> None:
    parent = RING.bundles[0]
    other = Ring.even(Namespace("public", "a"), 2).bundles
    inside = parent.cut(parent.range.middle)
    views = [BundleView(each, "b1", BundleLoad.unseen()) for each in (*inside, *other, B, parent)]
    expected = sorted((*inside, *other, B, parent))
    assert [each.bundle for each in in_order(views)] == expected
    assert [each.bundle for each in in_order(reversed(views))] == expected
