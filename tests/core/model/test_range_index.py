"""The index finds all ranges that overlap, whatever else it holds."""

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import BundleRange, RangeIndex

ENDS = st.tuples(st.integers(0, 40), st.integers(0, 40)).filter(lambda ends: ends[0] < ends[1])
SPANS = ENDS.map(lambda ends: BundleRange(*ends))


@given(st.lists(SPANS, unique=True), st.data(), SPANS)
def test_the_index_finds_the_ranges_that_a_full_scan_finds(
    spans: list[BundleRange], data: st.DataObject, wanted: BundleRange
) -> None:
    near: RangeIndex[BundleRange] = RangeIndex()
    for span in spans:
        near.put(span, span)
    gone = data.draw(st.lists(st.sampled_from(spans), unique=True)) if spans else []
    for span in gone:
        near.remove(span)
    left = sorted(span for span in spans if span not in gone)
    assert len(near) == len(left)
    assert list(near.overlapping(wanted)) == [span for span in left if span.overlaps(wanted)]


def test_a_value_takes_the_place_of_the_one_before() -> None:
    near: RangeIndex[str] = RangeIndex()
    span = BundleRange(0, 8)
    near.put(span, "old")
    near.put(span, "new")
    assert list(near.overlapping(BundleRange(7, 9))) == ["new"]
    near.remove(span)
    assert not near
