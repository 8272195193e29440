import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, Bundle, BundleRange, Namespace
from broker_ctl.errors import InvalidName

position = st.integers(0, RING_HIGH)
ranges = (
    st.tuples(position, position)
    .filter(lambda p: p[0] != p[1])
    .map(lambda p: BundleRange(min(p), max(p)))
)
NAMESPACE = Namespace("tenant", "ns")


def test_the_text_is_lower_case_hex_of_eight_digits() -> None:
    assert str(BundleRange(0xAB, 0xC0000000)) == "0x000000ab_0xc0000000"
    assert str(Bundle.parse("t/n/0x000000AB_0xC0000000")) == "t/n/0x000000ab_0xc0000000"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x00000000",
        "0x0_0x1",
        "0x00000001_0x00000001",
        "0x00000002_0x00000001",
        "0X00000000_0Xffffffff",
        "0x00000000_0xffffffff\n",
        "0x00000000-0xffffffff",
    ],
)
def test_other_range_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        BundleRange.parse(text)


def test_the_lower_end_is_inside_and_the_upper_only_at_the_end_of_the_ring() -> None:
    inner, last = BundleRange(0x10, 0x20), BundleRange(0xC0000000, RING_HIGH)
    assert 0x10 in inner
    assert 0x1F in inner
    assert 0x20 not in inner
    assert 0xF not in inner
    assert RING_HIGH in last


@given(ranges)
def test_a_range_reads_back_from_its_text(bundle_range: BundleRange) -> None:
    assert BundleRange.parse(str(bundle_range)) == bundle_range
    bundle = Bundle(NAMESPACE, bundle_range)
    assert Bundle.parse(str(bundle)) == bundle


@given(ranges, ranges)
def test_overlap_is_mutual_and_means_a_common_hash(one: BundleRange, other: BundleRange) -> None:
    common = max(one.low, other.low)
    assert one.overlaps(other) == other.overlaps(one) == (common in one and common in other)


@given(ranges.filter(lambda r: r.can_split), st.data())
def test_the_children_of_a_cut_partition_their_parent(
    parent: BundleRange, data: st.DataObject
) -> None:
    inside = st.integers(parent.low + 1, parent.high - 1)
    boundaries = tuple(data.draw(st.lists(inside, min_size=1, max_size=5)))
    children = Bundle(NAMESPACE, parent).cut(boundaries)
    assert children[0].range.low == parent.low
    assert children[-1].range.high == parent.high
    assert all(a.range.high == b.range.low for a, b in pairwise(children))
    assert len(children) == len(set(boundaries)) + 1


@pytest.mark.parametrize("boundaries", [(), (0x10,), (0x20,), (0x15, 0x30)])
def test_a_boundary_must_lie_strictly_inside(boundaries: tuple[int, ...]) -> None:
    with pytest.raises(InvalidName):
        Bundle(NAMESPACE, BundleRange(0x10, 0x20)).cut(boundaries)


def test_bundles_of_different_namespaces_never_overlap() -> None:
    whole = BundleRange(0, RING_HIGH)
    assert not Bundle(NAMESPACE, whole).overlaps(Bundle(Namespace("tenant", "other"), whole))


def test_a_bundle_from_another_process_is_found_by_one_that_was_parsed_here() -> None:
    bundle = Bundle.parse("tenant/ns/0x00000000_0x80000000")
    # Strings have other hashes there.
    object.__setattr__(bundle, "_hash", hash(bundle) + 1)
    arrived = pickle.loads(pickle.dumps(bundle))
    fresh = Bundle.parse("tenant/ns/0x00000000_0x80000000")
    assert {fresh: 1}.get(arrived) == 1
