from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, BundleRange
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.core.strategies.splitting.algorithms import (
    SplitRequest,
    TopicRate,
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)
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
        st.lists(
            st.builds(
                TopicRate, st.integers(r.low, r.high), st.floats(0, 50_000), st.floats(0, 3e8)
            ),
            max_size=9,
        ).map(tuple),
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
        flow_or_qps_equally_divide,
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


# By traffic. A bundle may have 100 msg/s and 1,000 bytes/s, and is cut from a tenth more on.

TIGHT = SplitRules(max_msg_rate=100.0, max_bandwidth_bytes=1_000.0)


def cut_by_traffic(
    *topics: tuple[int, float, float], rules: SplitRules = TIGHT, high: int = 1_000
) -> tuple[int, ...]:
    """Each topic is its hash, its messages and its bytes a second."""
    rates = tuple(TopicRate(*topic) for topic in topics)
    return flow_or_qps_equally_divide(SplitRequest(BundleRange(0, high), rates=rates, rules=rules))


@pytest.mark.parametrize(
    ("topics", "boundaries"),
    [
        # 60 + 60 is too much for one: half way between 100 and 200, and one more.
        (((100, 60, 0), (200, 60, 0)), (151,)),
        (((200, 60, 0), (100, 60, 0)), (151,)),
        # By bytes alone; messages alone.
        (((100, 1, 600), (200, 1, 600)), (151,)),
        (((100, 60, 1), (200, 60, 1)), (151,)),
        # Three times the limit becomes three bundles and more, at once.
        (((100, 90, 0), (200, 90, 0), (300, 90, 0)), (151, 251)),
        (((100, 40, 0), (200, 40, 0), (300, 40, 0), (400, 90, 0)), (251, 351)),
        # Adjacent hashes: the next one begins the next bundle.
        (((100, 60, 0), (101, 60, 0)), (101,)),
        # A topic that is too much by itself gets a bundle of its own.
        (((100, 10, 0), (200, 500, 0), (300, 10, 0)), (151, 251)),
    ],
)
def test_a_bundle_is_cut_where_one_more_topic_would_be_too_much(
    topics: tuple[tuple[int, float, float], ...], boundaries: tuple[int, ...]
) -> None:
    assert cut_by_traffic(*topics) == boundaries


@pytest.mark.parametrize(
    "topics",
    [
        (),
        ((100, 500, 5_000),),
        # A topic without traffic is not cut at.
        ((100, 500, 0), (200, 0, 0)),
        # Above the limit, but by less than a tenth.
        ((100, 60, 0), (200, 49, 0)),
        # Of one hash: they cannot be parted.
        ((100, 60, 0), (100, 60, 0)),
    ],
)
def test_there_may_be_nothing_to_cut(topics: tuple[tuple[int, float, float], ...]) -> None:
    assert cut_by_traffic(*topics) == ()


def test_topics_of_one_hash_are_added_up() -> None:
    # In Pulsar the last of the three counts alone, and nothing is cut.
    same = [(100, 30.0, 0.0)] * 3
    assert cut_by_traffic(*same, (200, 30.0, 0.0)) == (151,)


def test_a_limit_of_nothing_is_none_and_the_difference_is_a_setting() -> None:
    topics = (100, 60.0, 0.0), (200, 60.0, 0.0)
    unlimited = SplitRules(max_msg_rate=0, max_bandwidth_bytes=0)
    assert cut_by_traffic(*topics, rules=unlimited) == ()
    patient = SplitRules(max_msg_rate=100.0, flow_difference_ratio=0.3)
    assert cut_by_traffic(*topics, rules=patient) == ()


@given(st.lists(st.tuples(st.integers(0, 999), st.floats(0.1, 150), st.just(0.0)), min_size=2))
def test_no_child_has_too_much_unless_a_single_hash_has(
    topics: list[tuple[int, float, float]],
) -> None:
    edges = [0, *cut_by_traffic(*topics), 1_000]
    if len(edges) == 2:
        return
    for low, high in pairwise(edges):
        inside = [topic for topic in topics if low <= topic[0] < high]
        assert inside, "no child is empty"
        if len({where for where, *_ in inside}) > 1:
            assert sum(rate for _, rate, _ in inside) <= 100.0 * (1 + 1e-9)
