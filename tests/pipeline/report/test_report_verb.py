"""The verb, from tables of a few rows to the page and its numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from broker_ctl.cli.main import main
from broker_ctl.pipeline.backtest.results import COMPARISONS, FRONT
from broker_ctl.pipeline.tables import BATCHES, HISTORY, QUARANTINE
from broker_ctl.pipeline.transforms.churn import MOVED_LOAD, OWNERSHIP_CHURN
from broker_ctl.pipeline.transforms.forecasts import SHAPE_ADVICE
from broker_ctl.pipeline.transforms.heat import HOT_BUNDLES, HOT_TOPICS, LOAD_SKEW
from broker_ctl.pipeline.transforms.hours import HOUR_PROFILES
from broker_ctl.pipeline.transforms.sessions import LEADINGS, SESSION_COUNTS
from tests.pipeline.report.samples import HOSTILE
from tests.support.pipeline.parquet_tables import write_rows
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, HOUR_MS

MINUTE_MS = 60_000
BUNDLES = ("t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff")
EAST: dict[str, Any] = {"cluster": "east"}


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "report", *map(str, words)])


def write_profiles(root: Path) -> None:
    """Of two clusters; those of west are in no figure of the report."""
    cycles = [
        {
            **EAST,
            "epoch": 1,
            "cycle": cycle,
            "at_ms": DAY_ONE_MS + cycle * MINUTE_MS,
            "brokers": 2,
            "mean_usage_ratio": 0.4,
            "max_usage_ratio": 0.4 * ratio,
            "max_over_mean": ratio,
            "fullest": "a",
            "bytes_s": 100.0,
        }
        for cycle, ratio in enumerate([1.0] * 60 + [1.1] * 59 + [1.5])
    ]
    west = {**cycles[0], "cluster": "west", "max_over_mean": 9.0, "max_usage_ratio": 9.0}
    write_rows(root, LOAD_SKEW, *cycles, west)
    hot = {"rank": 1, "bytes_s": 10.0, "share_ratio": 0.75, "peak_bytes_s": 20.0}
    hot |= {"peak_usage_ratio": 0.5, "topics": 3}
    write_rows(
        root,
        HOT_BUNDLES,
        {**EAST, **hot, "bundle": BUNDLES[0]},
        {**EAST, **hot, "rank": 2, "bundle": HOSTILE},
        {**hot, "cluster": "west", "bundle": "w/n/0x00000000_0xffffffff"},
    )
    write_rows(root, HOT_TOPICS)
    usual = {"days": 1, "msg_rate": 1.0}
    hours = [
        {**EAST, **usual, "bundle": name, "hour": hour, "bytes_s": float(hour), "usage_ratio": 0.4}
        for name in (*BUNDLES, HOSTILE)
        for hour in range(24)
        if (name, hour) != (HOSTILE, 5)
    ]
    write_rows(root, HOUR_PROFILES, *hours)
    churn = {**EAST, "cause": "transfer", "acquired": 3, "released": 2, "bundles": 3}
    write_rows(
        root,
        OWNERSHIP_CHURN,
        {**churn, "hour_ms": DAY_ONE_MS},
        {**churn, "hour_ms": DAY_ONE_MS + 2 * HOUR_MS},
        {**churn, "hour_ms": DAY_ONE_MS + 2 * HOUR_MS, "cause": HOSTILE, "released": 7},
    )
    moved = {**EAST, "decision": "transfer", "reason": "balance", "failures": 1, "took_s": 2.0}
    moved |= {"moved_bytes_s": 5.0, "hour_ms": DAY_ONE_MS, "decisions": 4, "moved_ratio": 0.05}
    write_rows(root, MOVED_LOAD, moved, {**moved, "reason": "drain", "moved_ratio": None})
    write_rows(root, SHAPE_ADVICE)
    event = {**EAST, "broker": "a", "event": "lost", "events": 2}
    write_rows(root, SESSION_COUNTS, {**event, "day_ms": DAY_ONE_MS})
    led = {**EAST, "seat": "loadbalance", "broker": "a", "detail": HOSTILE}
    write_rows(
        root,
        LEADINGS,
        {**led, "epoch": 1, "began_ms": DAY_ONE_MS},
        {**led, "epoch": 2, "began_ms": DAY_ONE_MS + HOUR_MS, "vacant_s": 4.5},
    )


def write_tables(root: Path) -> None:
    counts = {"segments": 2, "unreadable": 0, "lines": 11, "faulty_lines": 1}
    counts |= {"repeated_lines": 3, "taken_lines": 7, "rows": 9}
    write_rows(root, BATCHES, {"batch": "one", **counts})
    stamp = {**EAST, "epoch": 1}
    write_rows(
        root,
        HISTORY["broker_loads"],
        *(
            {
                **stamp,
                "cycle": cycle,
                "at_ms": DAY_ONE_MS + cycle * MINUTE_MS,
                "broker": broker,
                "usage_ratio": usage,
            }
            for cycle in range(3)
            for broker, usage in ((HOSTILE, 0.1 * (cycle + 1)), ("b", 0.5))
        ),
    )
    # Of the third cycle not all rows are there yet.
    last = {**stamp, "cycle": 1, "at_ms": DAY_ONE_MS + MINUTE_MS}
    bundles = [
        {**last, "bundle": BUNDLES[0], "owner": HOSTILE, "usage_ratio": 0.4},
        {**last, "bundle": BUNDLES[1], "owner": "b"},
        {**last, "cycle": 0, "bundle": "gone/n/0x00000000_0xffffffff", "owner": "b"},
    ]
    write_rows(root, HISTORY["bundle_loads"], *bundles)
    write_rows(root, HISTORY["capacities"], {**last, "broker": "b", "size_ratio": 1.0})
    fault = {"file": "file:/h/s.ndjson.gz", "line": 4, "fault": "not JSON", "text": HOSTILE}
    write_rows(root, QUARANTINE, fault)


def write_backtest(root: Path) -> None:
    scores: dict[str, Any] = {
        "trace": "diurnal",
        "policy": "balance",
        "seeds": 3,
        "overload_broker_min": 0.0,
    }
    write_rows(
        root,
        FRONT,
        *(
            {
                **scores,
                "parameters": name,
                "p99": p99,
                "load_moved_pct_per_h": moved,
                "is_on_front": is_on,
            }
            for name, p99, moved, is_on in (("", 1.1, 0.5, True), (HOSTILE, 1.2, 0.9, False))
        ),
        {
            **scores,
            "trace": "cluster:east",
            "parameters": "",
            "p99": 1.05,
            "load_moved_pct_per_h": 0.25,
            "is_on_front": True,
        },
    )
    compared: dict[str, Any] = {
        "trace": "diurnal",
        "policy": "balance",
        "parameters": HOSTILE,
        "measure": "p99",
    }
    compared |= {"baseline_policy": "balance", "baseline_parameters": "", "pairs": 3}
    numbers = {"baseline_mean": 1.1, "candidate_mean": 1.2, "difference": 0.1}
    # Ten minutes of a thousand are less than half of what was moved.
    overload = {"measure": "overload_broker_min", "baseline_mean": 1000.0, "candidate_mean": 990.0}
    fallen = {"measure": "load_moved_pct_per_h", "baseline_mean": 1.0, "candidate_mean": 0.5}
    write_rows(
        root,
        COMPARISONS,
        {**compared, **numbers, "low": 0.05, "high": 0.15},
        {**compared, **overload, "difference": -10.0, "low": -20.0, "high": 0.0},
        {**compared, **fallen, "difference": -0.5, "low": -0.6, "high": -0.4},
    )


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("report")
    found = {name: root / name for name in ("profiles", "tables", "backtest")}
    write_profiles(found["profiles"])
    write_tables(found["tables"])
    write_backtest(found["backtest"])
    return found


def sections_of(path: Path) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(path.read_text())["sections"]}


@pytest.mark.slow
def test_the_report_says_what_stands_in_the_tables(
    spark: SparkSession, places: dict[str, Path], tmp_path: Path
) -> None:
    given = ("--tables", places["tables"], "--backtest", places["backtest"], "--cluster", "east")
    done = run(places["profiles"], "--to", tmp_path / "r.html", *given, "--output", "json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert set(said["missing"]) == {"unloads", "capacity", "forecasts", "handovers"}
    assert said["missing"]["capacity"] == [
        (
            "There is no profile capacity_fit. broker-ctl pipeline profile TABLES"
            f" --to {places['profiles']} --only capacity_fit"
        )
    ]
    found = sections_of(tmp_path / "r.json")
    check_time(found)
    check_bundles(found)
    check_the_rest(found)
    shown = (tmp_path / "r.html").read_text()
    assert "<script" not in shown
    assert shown.count("<figure ") == sum(len(each["charts"]) for each in found.values()) == 9
    for each in found.values():
        assert each["says"] or each["charts"] or each["tables"] or each["missing"]


def check_time(found: Any) -> None:
    short = found["summary"]
    assert {each["says"]: each["value"] for each in short["facts"]} == {
        "brokers": 2,
        "imbalance costs": 0.2,
        "p99 of the imbalance": pytest.approx(1.1),
        "mean usage": pytest.approx(40.0),
    }
    bars = {each["label"]: each["value"] for each in short["charts"][0]["bars"]}
    assert bars == {"as it was": pytest.approx(1.1), "balance": 1.05}
    even = found["imbalance"]
    facts = {each["says"]: each["value"] for each in even["facts"]}
    assert (even["rows"], facts["worst cycle"], facts["brokers, at the end"]) == (120, 1.5, 2)
    assert facts["p99 of the imbalance"] == pytest.approx(1.1)
    assert facts["cycles above the target"] == pytest.approx(100 / 120)
    (chart,) = even["charts"]
    # Two cycles a place: its mean, and the lower and the higher of them.
    assert chart["width_ms"] == 2 * MINUTE_MS
    assert chart["series"][0]["values"] == pytest.approx([1.0] * 30 + [1.1] * 29 + [1.3])
    assert [each["values"][-1] for each in chart["within"]] == [1.1, 1.5]
    assert [each["label"] for each in chart["levels"]] == ["mean", "target"]
    assert chart["levels"][0]["value"] == pytest.approx((60 + 59 * 1.1 + 1.5) / 120)
    loads = found["loads"]
    assert loads["rows"] == 6
    (chart,) = loads["charts"]
    assert [each["label"] for each in chart["series"]] == ["b", HOSTILE]
    assert chart["series"][1]["values"] == pytest.approx([10.0, 20.0, 30.0])
    assert loads["tables"][0]["rows"][0] == ["b", 50.0, 50.0, 50.0, 3]
    churn = found["churn"]["charts"][0]
    assert churn["xs"] == [DAY_ONE_MS + hour * HOUR_MS for hour in range(3)]
    assert {each["label"]: each["values"] for each in churn["series"]} == {
        HOSTILE: [0.0, 0.0, 10.0],
        "transfer": [5.0, 0.0, 5.0],
    }
    moved = found["moved"]
    assert moved["charts"][0]["series"] == [{"label": "balance", "values": [5.0]}]
    assert moved["tables"][0]["rows"] == [
        ["transfer", "balance", 4, 1, 5.0, 2.0],
        ["transfer", "drain", 4, 1, 0.0, 2.0],
    ]


def check_bundles(found: Any) -> None:
    (heat,) = found["heat"]["charts"]
    assert [each["label"] for each in heat["rows"]] == [BUNDLES[0], HOSTILE]
    assert heat["rows"][0]["values"] == [float(hour) for hour in range(24)]
    assert heat["rows"][1]["values"][4:7] == [4.0, None, 6.0]
    assert len(found["heat"]["tables"]) == 1
    foretold = {row[0]: row[1:] for row in found["what-if"]["tables"][0]["rows"]}
    assert list(foretold) == [
        *("as it is", f"without {HOSTILE}", "1 more broker", "2 more brokers", "tenant t doubles"),
    ]
    # As measured in the second hour, when nothing was new any more.
    assert foretold["as it is"][:2] == [pytest.approx(1.1 + 0.4 * 0.42), 0.0]
    # Two equal bundles on three brokers and on four: one and a half, and twice the mean.
    assert foretold["1 more broker"][1] == pytest.approx(50.0)
    assert foretold["2 more brokers"][1] == pytest.approx(100.0)
    assert foretold[f"without {HOSTILE}"][2:] == [80.0, 80.0, 0]
    assert foretold["tenant t doubles"][2:] == [80.0, 80.0, 0]


def check_the_rest(found: Any) -> None:
    recorded, points = found["front"]["charts"]
    assert [len(each["points"]) for each in recorded["groups"]] == [1, 0]
    assert [(each["label"], len(each["points"])) for each in points["groups"]] == [
        ("on the front", 1),
        ("beaten by another", 1),
    ]
    assert points["groups"][0]["points"][0]["y"] == 1.1
    assert [row[8:] for row in found["front"]["tables"][0]["rows"]] == [
        [-0.5, -0.6, -0.4],
        [-10.0, -20.0, 0.0],
        [0.1, 0.05, 0.15],
    ]
    assert found["shapes"]["says"] == ["No bundle is too large, and no two are too small."]
    sessions = found["sessions"]
    assert [each["value"] for each in sessions["facts"]] == [2, 4.5]
    assert sessions["tables"][0]["rows"] == [["lost", 2, 1]]
    assert [row[1] for row in sessions["tables"][1]["rows"]] == [2, 1]
    assert sessions["span"] == {"from_ms": DAY_ONE_MS, "to_ms": DAY_ONE_MS + DAY_MS - 1}
    standing = found["quarantine"]
    counts = {each["says"]: each["value"] for each in standing["facts"]}
    assert (counts["lines"], counts["lines in quarantine"], counts["rows"]) == (11, 1, 9)
    (table,) = standing["tables"]
    assert table["rows"] == [["file:/h/s.ndjson.gz", 4, "not JSON", HOSTILE]]
    assert table["left_out"] == 0


def test_wrong_options_are_refused_and_no_page_is_written(
    spark: SparkSession, places: dict[str, Path], tmp_path: Path
) -> None:
    profiles, page = places["profiles"], tmp_path / "r.html"
    for words, said in (
        ((profiles,), "--cluster says which of: east, west"),
        ((profiles, "--cluster", "north"), "no cluster 'north': --cluster says which of: east"),
        ((tmp_path,), "no profiles in it: broker-ctl pipeline profile makes them"),
        ((profiles, "--json", page), "is the file of the page"),
        ((profiles, "--json", tmp_path / "no" / "r.json"), "no such directory"),
    ):
        done = run(*words, "--to", page)
        assert (done.exit_code != 0, said in done.output) == (True, True), done.output
    assert not page.exists()


def test_help_has_examples_and_starts_nothing() -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert "broker-ctl pipeline report " in done.output.partition("Examples:")[2]
