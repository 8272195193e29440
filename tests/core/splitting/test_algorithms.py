import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.bundle import BundleRange
from broker_ctl.core.hashing import RING_HIGH
from broker_ctl.core.splitting.range_equally_divide import range_equally_divide
from broker_ctl.core.splitting.request import SplitRequest
from broker_ctl.core.splitting.specified_positions_divide import specified_positions_divide
from broker_ctl.core.splitting.topic_count_equally_divide import topic_count_equally_divide
from broker_ctl.errors import InvalidName

SMALL = BundleRange(10, 20)
position = st.integers(0, RING_HIGH)
ranges = (
    st.tuples(position, position)
    .filter(lambda p: p[0] != p[1])
    .map(lambda p: BundleRange(min(p), max(p)))
)
requests = ranges.flatmap(
    lambda r: st.builds(
        SplitRequest,
        st.just(r),
        st.lists(st.integers(r.low, r.high), max_size=9).map(tuple),
        st.lists(position, min_size=1, max_size=5).map(tuple),
    )
)


@pytest.mark.parametrize(
    ("text", "boundaries"),
    [
        ("0xc0000000_0xffffffff", (0xDFFFFFFF,)),
        ("0x00000000_0xffffffff", (0x7FFFFFFF,)),
        ("0x00000000_0x40000000", (0x20000000,)),
        ("0x00000004_0x00000006", (5,)),
        ("0x00000004_0x00000005", ()),
    ],
)
def test_a_range_is_cut_in_the_middle(text: str, boundaries: tuple[int, ...]) -> None:
    assert range_equally_divide(SplitRequest(BundleRange.parse(text))) == boundaries


@pytest.mark.parametrize(
    ("hashes", "boundaries"),
    [
        ((), ()),
        ((12,), ()),
        ((12, 16), (14,)),
        ((16, 12, 19, 18), (17,)),
        ((12, 13), (13,)),
        ((10, 11), (11,)),
        ((10, 10), ()),
        ((15, 15), (15,)),
        ((10, 18, 19), (14,)),
    ],
)
def test_topics_are_halved(hashes: tuple[int, ...], boundaries: tuple[int, ...]) -> None:
    assert topic_count_equally_divide(SplitRequest(SMALL, hashes)) == boundaries


@pytest.mark.parametrize(
    ("positions", "boundaries"),
    [((15,), (15,)), ((18, 12, 12), (12, 18)), ((10, 20, 5, 99), ()), ((10, 11), (11,))],
)
def test_positions_inside_are_kept(positions: tuple[int, ...], boundaries: tuple[int, ...]) -> None:
    assert specified_positions_divide(SplitRequest(SMALL, (11, 12), positions)) == boundaries


def test_positions_are_of_no_use_below_two_topics_and_must_be_given() -> None:
    assert specified_positions_divide(SplitRequest(SMALL, (11,), (15,))) == ()
    with pytest.raises(InvalidName):
        specified_positions_divide(SplitRequest(SMALL, (11, 12), ()))


@given(requests)
def test_every_boundary_lies_strictly_inside(request: SplitRequest) -> None:
    for algorithm in (
        range_equally_divide,
        topic_count_equally_divide,
        specified_positions_divide,
    ):
        points = algorithm(request)
        assert list(points) == sorted(set(points))
        assert all(request.range.low < point < request.range.high for point in points)


@given(ranges.filter(lambda r: r.can_split), st.data())
def test_distinct_topics_end_up_half_and_half(
    bundle_range: BundleRange, data: st.DataObject
) -> None:
    inside = st.integers(bundle_range.low, bundle_range.high - 1)
    hashes = data.draw(st.sets(inside, min_size=2, max_size=9))
    (boundary,) = topic_count_equally_divide(SplitRequest(bundle_range, tuple(hashes)))
    left = sum(1 for where in hashes if where < boundary)
    assert left == len(hashes) // 2
