"""Each transform on a few rows, against values that were worked out by hand."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from broker_ctl.pipeline.reading.hourly import SUMS
from broker_ctl.pipeline.tables import HISTORY, conform
from broker_ctl.pipeline.transforms.churn import (
    MOVED_LOAD,
    OWNERSHIP_CHURN,
    UNLOAD_EFFECTS,
    moved_load,
    ownership_churn,
    unload_effects,
)
from broker_ctl.pipeline.transforms.forecasts import (
    CAPACITY_FIT,
    FORECAST_ERRORS,
    SHAPE_ADVICE,
    capacity_fit,
    forecast_errors,
    shape_advice,
)
from broker_ctl.pipeline.transforms.heat import (
    HOT_BUNDLES,
    HOT_TOPICS,
    LOAD_SKEW,
    hot_bundles,
    hot_topics,
    load_skew,
)
from broker_ctl.pipeline.transforms.hours import (
    BUNDLE_HOURS,
    HOUR_PROFILES,
    WEEKDAY_PROFILES,
    bundle_hours,
    hour_profiles,
    weekday_profiles,
)
from broker_ctl.pipeline.transforms.sessions import (
    HANDOVERS,
    LEADINGS,
    SESSION_COUNTS,
    handovers,
    leader_terms,
    session_counts,
)
from tests.pipeline.conftest import Frame
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, HOUR_MS

EAST = {"cluster": "east"}
MINUTE_MS = 60_000


def rows(table: Any, result: DataFrame) -> list[dict[str, Any]]:
    """By the table's key, and only what the table has."""
    found = [row.asDict() for row in conform(result, table).collect()]
    return sorted(found, key=lambda row: [str(row[name]) for name in table.key])


def test_skew_is_the_fullest_broker_over_the_mean_one(frame: Frame) -> None:
    at = {**EAST, "epoch": 1, "cycle": 7, "at_ms": DAY_ONE_MS}
    idle = {**EAST, "epoch": 1, "cycle": 8, "at_ms": DAY_ONE_MS + 1, "usage_ratio": 0.0}
    idle |= {"bytes_in": 0.0, "bytes_out": 0.0}
    loads = frame(
        HISTORY["broker_loads"],
        {**at, "broker": "a", "usage_ratio": 0.2, "bytes_in": 10.0, "bytes_out": 5.0},
        {**at, "broker": "b", "usage_ratio": 0.7, "bytes_in": 20.0, "bytes_out": 7.0},
        {**idle, "broker": "a"},
        {**idle, "broker": "b"},
    )
    busy, quiet = rows(LOAD_SKEW, load_skew(loads))
    assert busy["brokers"] == 2
    assert busy["mean_usage_ratio"] == pytest.approx(0.45)
    assert busy["max_over_mean"] == pytest.approx(0.7 / 0.45)
    assert (busy["fullest"], busy["bytes_s"]) == ("b", 42.0)
    assert (quiet["max_over_mean"], quiet["at_ms"]) == (1.0, DAY_ONE_MS + 1)


def test_an_hour_is_the_mean_over_its_cycles_of_what_was_reported(spark: SparkSession) -> None:
    hours = (DAY_ONE_MS, DAY_ONE_MS + HOUR_MS)
    sums = [("east", "b", hour, 60.0, None, 2.0, 3, 2, 4) for hour in hours]
    first, second = rows(BUNDLE_HOURS, bundle_hours(spark.createDataFrame(sums, SUMS)))
    assert (first["hour_ms"], second["hour_ms"]) == hours
    assert (first["cycles"], first["msg_rate"], first["usage_ratio"]) == (2, 15.0, 0.5)
    assert (first["bytes_s"], first["topics"]) == (None, 3)


def hour(day: int, hour: int, rate: float, bundle: str = "b", **more: Any) -> dict[str, Any]:
    """Of `BUNDLE_HOURS`; usage is a hundredth of the rate."""
    at_ms = DAY_ONE_MS + day * DAY_MS + hour * HOUR_MS
    row = {**EAST, "bundle": bundle, "hour_ms": at_ms, "cycles": 60, "msg_rate": rate}
    return {**row, "bytes_s": rate, "usage_ratio": rate / 100, "topics": 4, **more}


def test_a_usual_day_has_the_median_of_the_newest_days(frame: Frame) -> None:
    days = [hour(day, 5, rate) for day, rate in enumerate((900.0, 10.0, 40.0, 20.0))]
    (profile,) = rows(HOUR_PROFILES, hour_profiles(frame(BUNDLE_HOURS, *days), 3))
    # The first day is too old; of 10, 40 and 20 the middle one counts.
    assert (profile["hour"], profile["days"], profile["bytes_s"]) == (5, 3, 20.0)
    (profile,) = rows(HOUR_PROFILES, hour_profiles(frame(BUNDLE_HOURS, *days), 4))
    assert (profile["days"], profile["bytes_s"]) == (4, 30.0)
    assert profile["usage_ratio"] == pytest.approx(0.3)


def test_a_usual_week_has_the_median_of_the_days_of_each_name(frame: Frame) -> None:
    # 2026-01-01 is a Thursday; so are the days 7 and 14.
    some = [
        hour(0, 0, 10.0),
        hour(0, 1, 30.0),
        hour(7, 0, 50.0),
        hour(14, 3, 60.0),
        hour(1, 0, 5.0),
    ]
    friday, thursday = sorted(
        rows(WEEKDAY_PROFILES, weekday_profiles(frame(BUNDLE_HOURS, *some), 15)),
        key=lambda row: -row["weekday"],
    )
    # Means of the days are 20, 50 and 60.
    assert (thursday["weekday"], thursday["days"], thursday["bytes_s"]) == (4, 3, 50.0)
    assert (friday["weekday"], friday["days"], friday["bytes_s"]) == (5, 1, 5.0)


def test_hot_bundles_are_those_that_carried_most(frame: Frame) -> None:
    hours = frame(
        BUNDLE_HOURS,
        *(
            hour(0, 0, 30.0, "x"),
            hour(0, 1, 50.0, "x"),
            hour(0, 0, 10.0, "y"),
            hour(0, 0, 10.0, "z"),
        ),
    )
    first, second = rows(HOT_BUNDLES, hot_bundles(hours, 7, 2))
    assert (first["rank"], first["bundle"], first["bytes_s"]) == (1, "x", 40.0)
    assert (first["share_ratio"], first["peak_bytes_s"]) == (0.8, 50.0)
    assert first["peak_usage_ratio"] == 0.5
    assert (second["rank"], second["bundle"], second["share_ratio"]) == (2, "y", 0.1)


def test_hot_topics_are_where_few_carry_much(frame: Frame) -> None:
    hours = frame(
        BUNDLE_HOURS,
        *(hour(0, 0, 90.0, "many", topics=9), hour(0, 0, 40.0, "one", topics=1)),
        hour(0, 1, 60.0, "one", topics=1),
    )
    skip = {
        **EAST,
        "at_ms": DAY_ONE_MS,
        "decision": "skip",
        "reason": "too_few_topics",
        "subject": "one",
    }
    decisions = frame(HISTORY["decisions"], skip, skip, {**skip, "reason": "below_threshold"})
    first, second = rows(HOT_TOPICS, hot_topics(hours, decisions, 7, 5))
    assert (first["bundle"], first["topic_bytes_s"], first["refusals"]) == ("one", 60.0, 2)
    assert (second["bundle"], second["topic_bytes_s"], second["refusals"]) == ("many", 10.0, 0)


def change(at_min: int, writer: str, cause: str, is_acquired: bool, bundle: str = "b") -> Any:
    return {
        **EAST,
        "id": f"{writer}-{at_min}-{bundle}-{is_acquired}",
        "at_ms": DAY_ONE_MS + at_min * MINUTE_MS,
        "writer": writer,
        "bundle": bundle,
        "cause": cause,
        "is_acquired": is_acquired,
    }


def test_churn_is_counted_by_hour_and_cause(frame: Frame) -> None:
    changes = frame(
        HISTORY["ownership_changes"],
        change(1, "a", "transfer", is_acquired=False),
        change(2, "b", "transfer", is_acquired=True),
        change(59, "a", "transfer", is_acquired=True),
        change(61, "a", "transfer", is_acquired=False),
        change(5, "a", "drain", is_acquired=False, bundle="c"),
    )
    drain, early, late = rows(OWNERSHIP_CHURN, ownership_churn(changes))
    assert (drain["cause"], drain["released"], drain["acquired"]) == ("drain", 1, 0)
    assert (early["acquired"], early["released"], early["bundles"]) == (2, 1, 1)
    assert (late["hour_ms"], late["released"]) == (DAY_ONE_MS + HOUR_MS, 1)


def transfer(at_min: float, **more: Any) -> dict[str, Any]:
    row = {**EAST, "id": f"d-{at_min}", "at_ms": DAY_ONE_MS + round(at_min * MINUTE_MS)}
    row |= {"decision": "transfer", "reason": "overloaded", "result": "done", "bundle": "b"}
    row |= {"source": "a", "destination": "z", "took_s": 30.0, "throughput_bytes": 10.0}
    return {**row, **more}


def test_moved_load_is_held_against_all_that_was_carried(frame: Frame) -> None:
    decisions = frame(
        HISTORY["decisions"],
        *(transfer(1), transfer(2, took_s=10.0), transfer(3, result="failed")),
        *(transfer(4, result="dry_run"), transfer(5, decision="skip", result="skipped")),
    )
    skew = frame(
        LOAD_SKEW,
        {**EAST, "at_ms": DAY_ONE_MS, "bytes_s": 100.0},
        {**EAST, "at_ms": DAY_ONE_MS + 1, "bytes_s": 300.0},
    )
    (moved,) = rows(MOVED_LOAD, moved_load(decisions, skew))
    assert (moved["decisions"], moved["failures"], moved["moved_bytes_s"]) == (2, 1, 20.0)
    assert (moved["moved_ratio"], moved["took_s"]) == (0.1, 20.0)
    (alone,) = rows(MOVED_LOAD, moved_load(decisions, skew.limit(0)))
    assert alone["moved_ratio"] is None


def test_an_unload_is_seen_in_its_brokers_before_and_after(frame: Frame) -> None:
    def used(at_min: float, broker: str, ratio: float) -> dict[str, Any]:
        at_ms = DAY_ONE_MS + round(at_min * MINUTE_MS)
        return {**EAST, "at_ms": at_ms, "broker": broker, "usage_ratio": ratio}

    # Done at 20:00 after half a minute: before is from 9:30 to 19:30, after from 20:00 to 30:00.
    decision = transfer(
        20, source_usage_after_ratio=0.65, destination_usage_after_ratio=0.35, id="d"
    )
    loads = frame(
        HISTORY["broker_loads"],
        *(used(9, "a", 0.1), used(10, "a", 0.9), used(19, "a", 0.7), used(19.75, "a", 0.0)),
        *(used(20, "a", 0.6), used(29.9, "a", 0.4), used(30, "a", 0.0)),
        *(used(15, "z", 0.2), used(25, "z", 0.3), used(25, "other", 1.0)),
    )
    skew = frame(
        LOAD_SKEW,
        {**EAST, "at_ms": DAY_ONE_MS + 12 * MINUTE_MS, "max_over_mean": 1.5},
        {**EAST, "at_ms": DAY_ONE_MS + 22 * MINUTE_MS, "max_over_mean": 1.1},
    )
    decisions = frame(
        HISTORY["decisions"], decision, transfer(90, id="e", destination=None, decision="unload")
    )
    effect, unmeasured = rows(UNLOAD_EFFECTS, unload_effects(decisions, loads, skew, 10))
    assert effect["source_before_ratio"] == pytest.approx(0.8)
    assert effect["source_after_ratio"] == pytest.approx(0.5)
    assert effect["source_foreseen_ratio"] == 0.65
    assert (effect["destination_before_ratio"], effect["destination_after_ratio"]) == (0.2, 0.3)
    assert (effect["skew_before"], effect["skew_after"]) == (1.5, 1.1)
    assert unmeasured["id"] == "e"
    assert unmeasured["source_before_ratio"] is unmeasured["destination"] is None


def test_events_of_sessions_are_counted_by_day(frame: Frame) -> None:
    def event(at_ms: int, event: str) -> dict[str, Any]:
        return {**EAST, "writer": "a", "at_ms": DAY_ONE_MS + at_ms, "event": event}

    events = frame(
        HISTORY["session_events"],
        *(event(0, "fence"), event(DAY_MS - 1, "fence"), event(5, "begin"), event(DAY_MS, "fence")),
    )
    found = rows(SESSION_COUNTS, session_counts(events))
    assert [(row["day_ms"] - DAY_ONE_MS, row["event"], row["events"]) for row in found] == [
        (0, "begin", 1),
        (0, "fence", 2),
        (DAY_MS, "fence", 1),
    ]


def test_leadership_is_vacant_from_the_last_sign_of_its_leader(frame: Frame) -> None:
    def led(epoch: int, at_s: int, writer: str, is_begin: bool) -> dict[str, Any]:
        row = {**EAST, "seat": "loadbalance", "epoch": epoch, "writer": writer, "detail": ""}
        return {**row, "at_ms": DAY_ONE_MS + at_s * 1000, "is_begin": is_begin}

    epochs = frame(
        HISTORY["leader_epochs"],
        *(led(1, 0, "a", is_begin=True), led(1, 50, "a", is_begin=False)),
        *(led(2, 52, "b", is_begin=True), led(3, 90, "c", is_begin=True)),
    )
    # The second leader died: its last cycle was at 80 s.
    skew = frame(
        LOAD_SKEW,
        *({**EAST, "epoch": 2, "cycle": n, "at_ms": DAY_ONE_MS + n * 1000} for n in (60, 80)),
    )
    first, second, third = rows(LEADINGS, leader_terms(epochs, skew))
    assert (first["broker"], first["vacant_s"]) == ("a", None)
    assert first["ended_ms"] == DAY_ONE_MS + 50_000
    assert (second["broker"], second["vacant_s"], second["ended_ms"]) == ("b", 2.0, None)
    assert (third["broker"], third["vacant_s"]) == ("c", 10.0)


def test_a_handover_lasts_from_the_loss_to_the_next_owner(frame: Frame) -> None:
    changes = frame(
        HISTORY["ownership_changes"],
        change(0, "a", "placement", is_acquired=True),
        change(3, "a", "transfer", is_acquired=False),
        change(4, "b", "transfer", is_acquired=True),
        # It died, and could not say that the bundle was gone.
        change(9, "c", "placement", is_acquired=True),
    )
    (handover,) = rows(HANDOVERS, handovers(changes))
    assert (handover["source"], handover["destination"]) == ("a", "b")
    assert (handover["gone_cause"], handover["unserved_s"]) == ("transfer", 60.0)


def test_capacity_is_fitted_to_what_was_used(frame: Frame) -> None:
    def used(broker: str, octets: float, ratio: float) -> dict[str, Any]:
        row = {**EAST, "broker": broker, "usage_ratio": ratio}
        return {**row, "bytes_in": octets, "bytes_out": 0.0}

    # a: 0.1 + bytes / 100; b: bytes / 300; c does not follow its throughput.
    loads = frame(
        HISTORY["broker_loads"],
        *(used("a", 10.0, 0.2), used("a", 50.0, 0.6), used("b", 30.0, 0.1), used("b", 60.0, 0.2)),
        *(used("c", 10.0, 0.5), used("c", 20.0, 0.4)),
    )
    reported = {**EAST, "epoch": 1}
    capacities = frame(
        HISTORY["capacities"],
        {**reported, "broker": "a", "cycle": 1, "size_ratio": 9.0},
        {**reported, "broker": "a", "cycle": 2, "size_ratio": 1.0},
        {**reported, "broker": "b", "cycle": 1, "size_ratio": 1.0},
    )
    a, b, c = rows(CAPACITY_FIT, capacity_fit(loads, capacities))
    assert a["fitted_bytes_s"] == pytest.approx(100.0)
    assert a["idle_usage_ratio"] == pytest.approx(0.1)
    assert a["r2"] == pytest.approx(1.0)
    assert a["fit_over_reported"] == pytest.approx(0.5)
    assert b["fitted_size_ratio"] == pytest.approx(1.5)
    assert (c["fitted_bytes_s"], c["reported_size_ratio"]) == (None, None)


def test_large_bundles_should_be_split_and_small_neighbours_merged(frame: Frame) -> None:
    def named(low: int, high: int) -> str:
        return f"t/n/0x{low << 28:08x}_0x{high << 28:08x}"

    # Usage is a hundredth of the rate: 0.25, 0.3 with one topic, then three small ones in a row.
    loads = {
        named(0, 1): (25.0, 4),
        named(1, 2): (30.0, 1),
        named(2, 3): (0.3, 4),
        named(3, 4): (0.4, 4),
        named(4, 5): (0.2, 4),
        named(6, 7): (0.1, 4),
    }
    hours = frame(
        BUNDLE_HOURS,
        *(hour(0, 1, rate, name, topics=topics) for name, (rate, topics) in loads.items()),
        # Gone since then.
        hour(0, 0, 99.0, named(8, 9)),
    )
    split, merge = sorted(
        rows(SHAPE_ADVICE, shape_advice(hour_profiles(hours, 7), hours, 0.1, 0.01)),
        key=lambda row: row["advice"],
        reverse=True,
    )
    assert (split["bundle"], split["advice"], split["parts"]) == (named(0, 1), "split", 3)
    assert (merge["bundle"], merge["right_bundle"]) == (named(2, 3), named(3, 4))
    assert merge["usage_ratio"] == pytest.approx(0.007)
    assert merge["topics"] == 8


def test_a_forecast_is_held_against_what_came(frame: Frame) -> None:
    days = [hour(day, 5, rate) for day, rate in enumerate((10.0, 30.0, 20.0, 40.0))]
    (error,) = rows(FORECAST_ERRORS, forecast_errors(frame(BUNDLE_HOURS, *days), 7))
    # Came: 30, 20, 40. Yesterday: 10, 30, 20. Medians of the days before: 10, 20, 20.
    assert (error["hours"], error["bytes_s"]) == (3, 30.0)
    assert error["yesterday_error_ratio"] == pytest.approx((20 + 10 + 20) / 90)
    assert error["profile_error_ratio"] == pytest.approx((20 + 0 + 20) / 90)
    assert error["profile_bias_ratio"] == pytest.approx((-20 + 0 - 20) / 90)
    # Of the newest two days alone, each by the two before it.
    (error,) = rows(FORECAST_ERRORS, forecast_errors(frame(BUNDLE_HOURS, *days), 2))
    assert (error["hours"], error["bytes_s"]) == (2, 30.0)
    assert error["yesterday_error_ratio"] == pytest.approx((10 + 20) / 60)
    assert error["profile_error_ratio"] == pytest.approx((0 + 15) / 60)


def test_what_is_hot_is_so_in_the_newest_days(frame: Frame) -> None:
    skip = {"decision": "skip", "reason": "too_few_topics", "subject": "b"}
    decisions = frame(
        HISTORY["decisions"],
        *({**EAST, **skip, "at_ms": DAY_ONE_MS + day * 24 * HOUR_MS} for day in (0, 2, 3, 3)),
    )
    loads = frame(BUNDLE_HOURS, hour(0, 5, 9.0, "gone"), hour(3, 5, 1.0, "b"))
    (bundle,) = rows(HOT_BUNDLES, hot_bundles(loads, 2, 5))
    assert (bundle["bundle"], bundle["share_ratio"]) == ("b", 1.0)
    (topic,) = rows(HOT_TOPICS, hot_topics(loads, decisions, 2, 5))
    assert (topic["bundle"], topic["refusals"]) == ("b", 3)
