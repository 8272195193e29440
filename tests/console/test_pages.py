"""What the pages compute from the rows of the API."""

from typing import Any, Final

import pytest

from broker_ctl.console.pages.bundles import bundles_page, partitions_page, policies_page, topics_of
from broker_ctl.console.pages.frame import LoadBand, bars_of
from broker_ctl.console.pages.history import grouped, history_page, times_wanted, usual_s
from broker_ctl.console.pages.plan import plan_page, rollout_page, settings_page


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


def test_a_bar_names_the_resource_of_which_a_broker_uses_most() -> None:
    rows: list[dict[str, Any]] = [
        {"broker": "b1:8080", "usage_ratio": 0.5, "fullest_resource": "bandwidth_in"},
        {"broker": "b2:8080", "usage_ratio": 0.0, "fullest_resource": ""},
        # Of a leader of the release before.
        {"broker": "b3:8080", "usage_ratio": 0.1},
    ]
    found = {bar.row["broker"]: bar.resource for bar in bars_of(rows, LoadBand()).bars}
    assert found == {"b1:8080": "bandwidth_in", "b2:8080": "", "b3:8080": ""}


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


def test_the_imbalance_lies_on_the_axis_of_the_decisions() -> None:
    rows = [{"at_ms": 5000, "kind": "split"}]
    points: list[dict[str, Any]] = [
        {"at_ms": 1000, "usage_imbalance": 2.0},
        {"at_ms": 3000, "usage_imbalance": None},
        {"at_ms": 5000, "usage_imbalance": 1.0},
    ]
    page = history_page(rows, {}, [], points, now_ms=5000)
    assert page.trace is not None
    assert (page.trace.first, page.trace.worst, page.trace.last) == (2.0, 2.0, 1.0)
    [begin, end] = page.trace.line.split()
    assert begin.startswith("0.0,")
    assert end == "1000.0,100.0"
    assert [mark.x for mark in page.marks] == [1000.0]
    assert page.trace.high < page.trace.low < 100


def test_a_point_in_time_beats_a_span_and_is_utc() -> None:
    night = {"since": "2030-01-31T03:00", "until": "2030-01-31T03:20", "span": "1h"}
    times, moments = times_wanted(night, now_ms=9)
    assert times == {"since": night["since"], "until": night["until"]}
    assert moments == {"since_ms": 1_896_058_800_000, "until_ms": 1_896_060_000_000}
    page = history_page([], times, [], now_ms=1_896_099_000_000)
    assert (page.axis.begin_ms, page.axis.end_ms) == tuple(moments.values())
    assert page.permalink.endswith("since=2030-01-31T03%3A00&until=2030-01-31T03%3A20")
    assert times_wanted({"since": "soon", "span": "15min"}, 1_000_000) == (
        {"span": "15min"},
        {"since_ms": 100_000},
    )


def test_a_span_of_time_ends_now_and_leaves_out_what_is_older() -> None:
    points = [{"at_ms": at, "usage_imbalance": 1.5} for at in (0, 500_000, 999_000)]
    page = history_page([], {"span": "15min"}, [], points, now_ms=1_000_000)
    assert (page.axis.begin_ms, page.axis.end_ms) == (100_000, 1_000_000)
    assert page.trace is not None
    assert page.trace.line.count(",") == 2
    assert page.permalink == "/ui/history?span=15min"
    assert history_page([], {}, [], points[:1], now_ms=1).trace is None


def test_alike_decisions_of_a_cycle_are_one_line() -> None:
    alike = {"kind": "split", "result": "done", "reason": "broker_share", "epoch": 1}
    rows = [{**alike, "cycle": cycle} for cycle in (3, 3, 3, 2)]
    groups = grouped(rows)
    assert [(len(group.rows), group.is_folded) for group in groups] == [(3, True), (1, False)]
    took = [{"kind": "transfer", "result": "done", "took_s": each} for each in (1.0, 9.0, 2.0)]
    assert usual_s(took) == 2.0
    assert usual_s(rows) is None


def test_a_rollout_shows_each_broker_on_its_way() -> None:
    brokers = [
        {"broker": "b1", "state": "done"},
        {"broker": "b2", "state": "checking"},
        {"broker": "b3", "state": "waiting"},
        {"broker": "b4", "state": "failed"},
    ]
    page = rollout_page({"state": "running", "brokers": brokers})
    places = [[step.place.value for step in each.steps] for each in page.brokers]
    assert places == [
        ["past"] * 6,
        ["past"] * 4 + ["now", "ahead"],
        ["now"] + ["ahead"] * 5,
        ["ahead"] * 6,
    ]
    assert page.acts == ("rollout-pause", "rollout-abort")
    assert rollout_page({"state": "stopped", "brokers": []}).acts[0] == "rollout-resume"
    assert rollout_page({"state": "done", "brokers": []}).is_over


def test_a_policy_says_which_live_brokers_it_covers() -> None:
    row = {
        "namespaces": ["shop/.*"],
        "primary": ["b[12]"],
        "auto_failover_policy": {"parameters": {"min_limit": "2"}},
    }
    matches = [
        {"brokerName": "b1:1", "policyName": "shop", "primary": True},
        {"brokerName": "b3:1", "policyName": "shop", "primary": False},
        {"brokerName": "b4:1", "primary": False},
    ]
    page = policies_page({"shop": row}, matches, {"rack": {"brokers": ["b1:1"]}})
    [policy] = page.policies
    assert (policy.primary, policy.secondary) == (("b1:1",), ("b3:1",))
    assert policy.is_short
    assert page.free == ("b4:1",)
    assert page.domains == {"rack": ("b1:1",)}


def test_one_topic_that_carries_a_bundle_is_named() -> None:
    def of(*throughputs: float) -> dict[str, Any]:
        topics = {f"t{n}": {"msgThroughputIn": each} for n, each in enumerate(throughputs)}
        return {"t/a": {"0x00000000_0x80000000": {"persistent": topics}}}

    name = "t/a/0x00000000_0x80000000"
    alone = topics_of(name, of(5.0))
    assert alone is not None
    assert alone.verdict == "One topic carries it all: no split helps, only a move."
    mostly, even = topics_of(name, of(1.0, 9.0)), topics_of(name, of(5.0, 5.0))
    assert mostly is not None
    assert mostly.verdict.startswith("One topic carries 90.0 %")
    assert mostly.rows[0].name == "t1"
    assert even is not None
    assert even.verdict == ""
    assert topics_of(name, None) is None
    assert topics_of("t/b/0x0_0x1", of(1.0)) is None


def test_topics_with_a_problem_come_first() -> None:
    calm = {"offline": 0, "under_min_isr": 0, "under_replicated": 0, "rack_violations": 0}
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
