"""Which topics have nearly all of a bundle's traffic."""

from dataclasses import replace

import pytest

from broker_ctl.core.strategies.splitting.algorithms import TopicRate
from broker_ctl.core.strategies.splitting.candidates import REMEDY, dominant_position, hot_topics
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

A, B, C = BUNDLES[:3]


def rates(*topics: tuple[int, float, float]) -> list[TopicRate]:
    return [TopicRate(*topic) for topic in topics]


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (rates((1, 0, 90), (2, 0, 10)), (1, 0.9)),
        (rates((1, 0, 89), (2, 0, 11)), None),
        # Topics of one hash cannot be separated.
        (rates((1, 0, 60), (2, 0, 5), (1, 0, 35)), (1, 0.95)),
        # Messages count where there are no bytes.
        (rates((1, 99, 1), (2, 1, 99)), (2, 0.99)),
        (rates((1, 99, 0), (2, 1, 0)), (1, 0.99)),
        (rates((1, 0, 0)), None),
        ([], None),
    ],
)
def test_one_hash_with_nine_tenths_of_the_traffic_dominates(
    topics: list[TopicRate], expected: tuple[int, float] | None
) -> None:
    assert dominant_position(topics) == expected


def test_bundles_above_the_share_are_hot_by_their_one_topic_or_by_what_their_owner_said() -> None:
    lines = {A: stats(40, topics=1), B: stats(50, topics=9), C: stats(10, topics=1)}
    view = cluster([broker("b1", 1.0, lines)])
    assert [str(each) for each in hot_topics(view, 0.2)] == [str(A)]
    named = replace(view.bundles[B], hot_topic="99% of its traffic is that of x")
    found = hot_topics(replace(view, bundles={**view.bundles, B: named}), 0.2)
    assert list(found) == [A, B]
    assert found[B].to_row() == {
        "bundle": str(B),
        "usage_ratio": pytest.approx(0.5),
        "detail": f"99% of its traffic is that of x; {REMEDY}",
    }
    assert found[A].what == "its one topic has 40.0 MiB/s"
