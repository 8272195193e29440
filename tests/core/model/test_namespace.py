from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, Bundle, BundleRange, Namespace, Ring, Topic
from broker_ctl.errors import BundleGone, InvalidName

NAMESPACE = Namespace("tenant", "ns")
position = st.integers(0, RING_HIGH)
rings = st.sets(st.integers(1, RING_HIGH - 1), max_size=20).map(
    lambda inner: Ring(NAMESPACE, (0, *sorted(inner), RING_HIGH), version=5)
)


@pytest.mark.parametrize(
    ("bundles", "inner"),
    [
        (1, ()),
        (3, (0x55555555, 0xAAAAAAAA)),
        (4, (0x40000000, 0x80000000, 0xC0000000)),
        (5, (0x33333333, 0x66666666, 0x99999999, 0xCCCCCCCC)),
    ],
)
def test_even_boundaries_are_those_of_pulsar(bundles: int, inner: tuple[int, ...]) -> None:
    assert Ring.even(NAMESPACE, bundles).boundaries == (0, *inner, RING_HIGH)


def test_seven_even_bundles_are_rounded_down() -> None:
    points = Ring.even(NAMESPACE, 7).boundaries
    assert points[1:3] == (0x24924924, 0x49249248)
    assert points[6] == 0xDB6DB6D8


@pytest.mark.parametrize("bundles", [-1, 0, 1 << 32])
def test_a_number_of_bundles_outside_the_ring_is_refused(bundles: int) -> None:
    with pytest.raises(InvalidName):
        Ring.even(NAMESPACE, bundles)


@pytest.mark.parametrize(
    "points", [(), (0,), (0, 0, RING_HIGH), (1, RING_HIGH), (0, 5), (0, 9, 5, RING_HIGH)]
)
def test_boundaries_must_grow_over_the_whole_ring(points: tuple[int, ...]) -> None:
    with pytest.raises(InvalidName):
        Ring(NAMESPACE, points, 0)


def test_the_very_last_hash_lies_in_the_last_bundle() -> None:
    ring = Ring.even(NAMESPACE, 4)
    assert ring.find(RING_HIGH) == ring.bundles[-1]


def test_a_boundary_belongs_to_the_bundle_that_it_opens() -> None:
    ring = Ring.even(NAMESPACE, 4)
    assert ring.find(0x40000000) == ring.bundles[1]
    assert ring.find(0x3FFFFFFF) == ring.bundles[0]


def test_a_topic_is_found_by_its_hash() -> None:
    ring = Ring.even(Namespace("public", "default"), 4)
    assert ring.bundle_of(Topic.parse("my-topic")) == ring.bundles[0]


@given(rings, position)
def test_every_hash_lies_in_exactly_the_bundle_that_is_found(ring: Ring, where: int) -> None:
    assert [bundle for bundle in ring.bundles if where in bundle.range] == [ring.find(where)]


@given(rings)
def test_the_bundles_partition_the_ring(ring: Ring) -> None:
    assert ring.bundles[0].range.low == 0
    assert ring.bundles[-1].range.high == RING_HIGH
    assert all(a.range.high == b.range.low for a, b in pairwise(ring.bundles))
    assert all(bundle in ring for bundle in ring.bundles)


@given(rings, st.data())
def test_a_split_is_undone_by_a_merge(ring: Ring, data: st.DataObject) -> None:
    splittable = [bundle for bundle in ring.bundles if bundle.range.can_split]
    parent = data.draw(st.sampled_from(splittable))
    cut = data.draw(st.integers(parent.range.low + 1, parent.range.high - 1))
    split = ring.split(parent, (cut,))
    left, right = parent.cut((cut,))
    assert parent not in split
    assert left in split
    assert right in split
    assert split.version == ring.version
    assert split.merge(left, right) == ring


def test_only_what_is_in_the_ring_is_split_or_merged() -> None:
    ring = Ring.even(NAMESPACE, 4)
    stranger = Bundle(NAMESPACE, BundleRange(0, 0x80000000))
    other = Bundle(Namespace("tenant", "other"), ring.bundles[0].range)
    assert stranger not in ring
    assert other not in ring
    with pytest.raises(BundleGone):
        ring.split(stranger, (0x10,))
    with pytest.raises(BundleGone):
        ring.merge(stranger, ring.bundles[2])


def test_bundles_that_do_not_touch_are_not_merged() -> None:
    ring = Ring.even(NAMESPACE, 4)
    with pytest.raises(InvalidName):
        ring.merge(ring.bundles[0], ring.bundles[2])
    with pytest.raises(InvalidName):
        ring.merge(ring.bundles[1], ring.bundles[0])


@given(rings, st.data())
def test_a_ring_is_made_around_the_bundles_of_another(ring: Ring, data: st.DataObject) -> None:
    other = data.draw(rings)
    owned = data.draw(st.sets(st.sampled_from(other.bundles)))
    made = ring.around(owned)
    assert all(bundle in made for bundle in owned)
    # Nothing else of the other ring is in it.
    bounds = {point for bundle in owned for point in (bundle.range.low, bundle.range.high)}
    assert {*made.boundaries} <= {*ring.boundaries, *bounds}
    assert ring.around([]) == ring
    assert ring.around(ring.bundles) == ring
