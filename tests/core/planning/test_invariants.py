"""Each invariant is broken once, by a decision that a faulty policy could make."""

from dataclasses import replace
from typing import Unpack

import pytest

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Reason, Split, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.planning.invariants import check, find_violations
from broker_ctl.errors import InvariantBroken
from tests.support.clusters.views import BUNDLES, NAMESPACE, Facts, broker, cluster, stats

A, B, C, FREE = BUNDLES[:4]
PINNED_RING = Ring.even(Namespace("pulsar", "b1:8080"), 1)
PINNED = PINNED_RING.bundles[0]
WHY = (Reason.OVERLOADED, "why")


def view(**facts: Unpack[Facts]) -> ClusterView:
    reports = [
        broker("b1", 0.6, {A: stats(40), B: stats(20), PINNED: stats(0)}),
        broker("b2", 0.1, {C: stats(10)}),
        broker("b3", 0.0, is_draining=True),
    ]
    given: Facts = {"owners": {FREE: None}, "rings": [Ring.even(NAMESPACE, 16), PINNED_RING]}
    given.update(facts)
    return cluster(reports, **given)


def move(seen: ClusterView, source: str = "b1", destination: str = "b2") -> Transfer:
    load = {broker_id: b.expected for broker_id, b in seen.brokers.items()}
    moved = seen.bundles[A].load_vector
    return Transfer(
        A, source, destination, *WHY, moved, load["b1"], load.get(destination, load["b2"])
    )


def faults(before: ClusterView, *decisions: Action) -> list[str]:
    after = before
    for decision in decisions:
        after = after.after(decision)
    return list(find_violations(before, decisions, after))


def test_sound_decisions_pass() -> None:
    cut = (B.range.low + 5,)
    sound = (
        move(view()),
        Split(B, "b1", "any", cut, *WHY),
        Assign(FREE, "b1", *WHY),
        Unload(C, "b2", *WHY),
    )
    assert faults(view(), *sound) == []
    assert faults(view(), Merge(A, B, "b1", *WHY)) == []


def test_a_bundle_is_decided_on_once() -> None:
    twice = (move(view()), Unload(A, "b2", *WHY))
    assert f"{A} is in 2 decisions" in faults(view(), *twice)


@pytest.mark.parametrize("busy", [{"moves": [InFlight(A, "b1", "b2")]}, {"splitting": [A]}])
def test_nothing_is_decided_on_a_bundle_that_moves(busy: Facts) -> None:
    seen = view(**busy)
    assert f"{A} is moving or being split already" in faults(seen, move(seen))


def test_only_the_owner_gives() -> None:
    assert faults(view(), move(view(), source="b9")) == [f"{A} is owned by b1, not by b9"]
    assert faults(view(), Assign(C, "b1", *WHY)) == [f"{C} is owned by b2, not by nobody"]
    assert faults(view(), Split(A, "b2", "any", (5,), *WHY)) == [f"{A} is owned by b1, not by b2"]


def test_only_the_living_receive_and_none_that_drains() -> None:
    assert faults(view(), Assign(FREE, "b3", *WHY)) == ["b3 is draining"]
    assert faults(view(), move(view(), destination="b9")) == ["b9 is not alive"]


def test_nothing_moves_to_where_it_is() -> None:
    assert f"{A} would move from b1 to itself" in faults(view(), move(view(), destination="b1"))


def test_nothing_moves_without_gain() -> None:
    seen = view()
    hot = replace(move(seen), destination_before=seen.brokers["b1"].expected)
    assert faults(seen, hot) == [f"{A} would only carry the load from b1 to b2"]


def test_a_pinned_bundle_stays() -> None:
    assert faults(view(), Unload(PINNED, "b1", *WHY)) == [f"{PINNED} belongs to its broker"]


def test_a_range_outside_the_ring_is_left_alone() -> None:
    seen = view(rings=[Ring.even(NAMESPACE, 3), PINNED_RING])
    assert f"{A} is not a bundle of its namespace" in faults(seen, Unload(A, "b1", *WHY))
    seen = view(rings=[PINNED_RING])
    assert f"the ring of {NAMESPACE} is unknown" in faults(seen, Unload(A, "b1", *WHY))


def test_no_hash_is_lost() -> None:
    before = view()
    split = Split(A, "b1", "any", (0x5,), *WHY)
    after = before.after(split)
    lost = after.rings[NAMESPACE].find(0)
    bundles = {bundle: seen for bundle, seen in after.bundles.items() if bundle != lost}
    found = list(find_violations(before, (split,), replace(after, bundles=bundles)))
    assert any("hashes, not" in fault for fault in found)


def test_no_bundle_has_two_owners() -> None:
    after = view()
    thief = replace(after.brokers["b2"], owned=after.brokers["b2"].owned | {A})
    doubled = replace(after, brokers={**after.brokers, "b2": thief})
    assert list(find_violations(after, (), doubled)) == [
        f"{A} would have 2 owners",
        f"{A} would be counted at b2, which does not own it",
    ]


def test_a_stale_owner_node_of_another_bundle_is_not_a_fault_of_the_plan() -> None:
    parent = BUNDLES[8]
    ring = Ring.even(NAMESPACE, 16).split(parent, (parent.range.low + 1,))
    seen = view(rings=[ring, PINNED_RING], owners={FREE: None, parent: "b2"})
    assert faults(seen, move(seen)) == []


def test_a_bundle_that_the_view_does_not_know_is_left_alone() -> None:
    found = list(find_violations(view(), (Unload(BUNDLES[9], "b1", *WHY),), view()))
    assert found == [f"{BUNDLES[9]} is not in the view"]


def test_check_raises_with_all_that_is_wrong() -> None:
    check(view(), (), view())
    wrong = (Unload(PINNED, "b2", *WHY),)
    with pytest.raises(InvariantBroken, match=r"belongs to its broker; .*not by b2"):
        check(view(), wrong, view().after(wrong[0]))
