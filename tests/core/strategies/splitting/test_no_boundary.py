"""Why a split finds no boundary."""

import pytest

from broker_ctl.core.model.names import BundleRange
from broker_ctl.core.strategies.splitting.algorithms import (
    SPLITTING,
    SplitRequest,
    TopicRate,
    explain_no_boundary,
)

RANGE = BundleRange.parse("0x00000000_0x40000000")
BUSY, IDLE = TopicRate(5, 1.0, 100.0), TopicRate(9, 0.0, 0.0)


@pytest.mark.parametrize(
    ("algorithm", "asked", "why"),
    [
        (
            "specified_positions_divide",
            SplitRequest(RANGE, (), (7,)),
            "a split needs two topics loaded, and it has 0",
        ),
        (
            "specified_positions_divide",
            SplitRequest(RANGE, (1, 2), (0x50000000,)),
            "no position lies inside its range",
        ),
        (
            "topic_count_equally_divide",
            SplitRequest(RANGE, (4,)),
            "a split needs two topics loaded, and it has 1",
        ),
        (
            "topic_count_equally_divide",
            SplitRequest(RANGE, (0, 0)),
            "its 2 topics loaded have one and the same hash",
        ),
        (
            "traffic_equally_divide",
            SplitRequest(RANGE, (5, 9), rates=(BUSY, IDLE)),
            "a split needs two topics with traffic, and it has 1",
        ),
        (
            "flow_or_qps_equally_divide",
            SplitRequest(RANGE, (5, 6), rates=(BUSY, TopicRate(6, 1.0, 1.0))),
            "it is above no limit of a bundle",
        ),
        ("range_equally_divide", SplitRequest(BundleRange(7, 8)), "its range is a single hash"),
    ],
)
def test_each_algorithm_says_what_is_missing(algorithm: str, asked: SplitRequest, why: str) -> None:
    cut = SPLITTING.find(algorithm)
    assert cut(asked) == ()
    assert why in explain_no_boundary(cut, asked)
