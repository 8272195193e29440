"""What the pages compute from the rows of the API."""

from typing import Any, Final

import pytest

from broker_ctl.console.pages.bundles import bundles_page
from broker_ctl.console.pages.history import history_page
from broker_ctl.console.pages.partitions import partitions_page
from broker_ctl.console.pages.plan import plan_page
from broker_ctl.console.pages.settings import settings_page


def bundle(name: str, throughput: float) -> dict[str, Any]:
    return {"bundle": name, "throughput_bytes_per_s": throughput, "owner": "b1"}


RING: Final = [
    bundle("t/a/0x80000000_0xffffffff", 100.0),
    bundle("t/a/0x00000000_0x80000000", 10.0),
    bundle("t/b/0x00000000_0xffffffff", 50.0),
]
MOVE: Final = {
    "kind": "transfer",
    "source": "b1",
    "destination": "b2",
    "source_usage_before_ratio": 0.8,
    "source_usage_after_ratio": 0.6,
    "destination_usage_before_ratio": 0.2,
    "destination_usage_after_ratio": 0.4,
}


def test_a_ring_is_a_strip_without_gaps_and_its_colour_is_the_load() -> None:
    page = bundles_page({"bundles": RING, "bundle_count": 5}, "", "")
    assert page.namespaces == ("t/a", "t/b")
    first = page.strips[0].pieces
    assert [(piece.x, round(piece.width)) for piece in first] == [(0.0, 500), (500.0, 500)]
    assert [piece.heat for piece in first] == [0, 4]
    assert page.hidden == 2
    assert page.hot[0] is RING[0]


def test_one_namespace_can_be_chosen_and_an_unknown_one_shows_none_of_others() -> None:
    view = {"bundles": RING, "bundle_count": 3}
    assert [strip.namespace for strip in bundles_page(view, "t/b", "").strips] == ["t/b"]
    assert bundles_page(view, "t/x", "").hot == ()
    assert bundles_page(None, "", "").strips == ()


def test_a_plan_shows_usage_before_and_after_its_moves() -> None:
    row = {
        "decisions": [MOVE, {"kind": "split"}],
        "skipped": [{"reason": "cooling_down"}, {"reason": "cooling_down"}],
    }
    brokers = [{"broker": "b1", "usage_ratio": 0.8}, {"broker": "b2", "usage_ratio": 0.2}]
    page = plan_page(row, brokers)
    assert [(each.broker, each.before) for each in page.changes] == [("b1", 0.8), ("b2", 0.2)]
    assert [each.after for each in page.changes] == pytest.approx([0.6, 0.4])
    assert len(page.moves) == len(page.others) == 1
    assert len(page.skipped["cooling_down"]) == 2
    assert plan_page({"decisions": []}, []).changes == ()


def test_decisions_are_on_one_axis_and_the_filter_is_in_the_link() -> None:
    rows = [{"at_ms": 3000, "kind": "split"}, {"at_ms": 1000, "kind": "transfer"}]
    page = history_page(rows, {"bundle": "t/a/0x0_0x1&x=y"}, [{"broker": "b1"}])
    assert [(mark.x, page.kinds[mark.line]) for mark in page.marks] == [
        (1000.0, "split"),
        (0.0, "transfer"),
    ]
    assert page.permalink == "/ui/history?bundle=t%2Fa%2F0x0_0x1%26x%3Dy"
    assert history_page([], {}, []).marks == ()


def test_topics_with_a_problem_come_first() -> None:
    calm = {"offline": 0, "under_min_isr": 0, "under_replicated": 0}
    topics = [{"topic": "a", **calm}, {"topic": "b", **calm, "offline": 1}]
    page = partitions_page({"brokers": [{"leaders": 0}]}, topics)
    assert [topic["topic"] for topic in page.topics] == ["b", "a"]
    assert page.most_leaders == 1


def test_a_setting_says_where_its_value_is_from() -> None:
    values = {"clusterName": "x", "consoleReadOnly": "false", "maxConcurrentLookupRequest": "7"}
    page = settings_page(
        values, {"maxConcurrentLookupRequest": "7"}, ["maxConcurrentLookupRequest"]
    )
    assert [(row.key, row.origin) for row in page.changed] == [
        ("clusterName", "broker.conf"),
        ("maxConcurrentLookupRequest", "override"),
    ]
    assert page.changed[1].is_dynamic
    assert [row.key for row in page.others] == ["consoleReadOnly"]
