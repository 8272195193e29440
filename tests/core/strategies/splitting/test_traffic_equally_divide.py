"""Either half has as nearly the same traffic as can be."""

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import BundleRange
from broker_ctl.core.strategies.splitting.algorithms import (
    SplitRequest,
    TopicRate,
    traffic_equally_divide,
)

SMALL = BundleRange(10, 20)


def cut(
    *bytes_at: tuple[int, float], rates_at: tuple[tuple[int, float], ...] = ()
) -> tuple[int, ...]:
    """Topics by their position and bytes/s, or msg/s."""
    rates = [TopicRate(position, 0.0, bytes_s) for position, bytes_s in bytes_at]
    rates += [TopicRate(position, rate, 0.0) for position, rate in rates_at]
    return traffic_equally_divide(SplitRequest(SMALL, (), (), tuple(rates)))


def test_the_cut_is_between_the_topics_where_the_halves_are_most_alike() -> None:
    """10, 20, 40 and 10: 30 and 50 differ less than 70 and 10."""
    assert cut((11, 10), (13, 20), (17, 40), (19, 10)) == (16,)


def test_one_heavy_topic_is_parted_from_all_others_wherever_the_middle_is() -> None:
    assert cut((18, 1), (11, 90), (19, 2)) == (15,)
    assert cut((11, 1), (12, 2), (13, 90)) == (13,)


def test_topics_at_one_hash_stay_together() -> None:
    assert cut((12, 30), (12, 30), (18, 1)) == (16,)
    assert cut((12, 30), (12, 30)) == ()


def test_where_there_are_no_bytes_messages_count() -> None:
    assert cut(rates_at=((11, 5), (13, 6), (19, 5))) in {(13,), (17,)}
    assert cut((11, 5), (13, 5), rates_at=((19, 9000),)) == (13,)


def test_topics_without_traffic_do_not_change_the_cut() -> None:
    assert cut((11, 0), (12, 10), (14, 0), (18, 10), (19, 0)) == (16,)
    assert cut((12, 10), (18, 0)) == ()
    assert cut() == ()


@given(st.lists(st.tuples(st.integers(10, 19), st.integers(0, 100)), max_size=12))
def test_no_other_cut_has_halves_more_alike(topics: list[tuple[int, int]]) -> None:
    boundaries = cut(*topics)
    left = {edge: sum(size for at, size in topics if at < edge) for edge in range(11, 20)}
    total = sum(size for _, size in topics)
    apart = {edge: abs(2 * load - total) for edge, load in left.items() if 0 < load < total}
    assert len(boundaries) == bool(apart)
    if apart:
        assert apart[boundaries[0]] == min(apart.values())
    assert cut(*reversed(topics)) == cut(*sorted(topics)) == boundaries
