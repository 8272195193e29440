"""The verbs, from a history to profiles; and the profiles, as DuckDB works them out by itself."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from broker_ctl.cli.main import main
from broker_ctl.core.history.row_kinds import BUNDLE_LOADS
from broker_ctl.core.history.rows import BundleLoadRow
from tests.support.pipeline.duckdb_oracle import answered
from tests.support.pipeline.profile_sql import profile_of_lines, profile_of_tables
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS, line, write_segment

BUNDLES = [f"t/n/0x{n << 28:08x}_0x{(n + 1) << 28:08x}" for n in range(6)]


def drawn_history(directory: Path, days: int, seed: int) -> None:
    """Two clusters, of days of different length; some bundles are not always reported."""
    directory.mkdir()
    draw = random.Random(seed)
    for cluster, last in (("east", days), ("west", days - 1)):
        lines = []
        for half_hour in range(last * 48):
            rows = []
            for bundle in BUNDLES:
                rate = None if draw.random() < 0.1 else draw.lognormvariate(10, 2)
                count = None if rate is None else 1
                rates = (rate, draw.random() if rate else None) * 2
                rows.append(
                    BundleLoadRow(bundle, "b", *rates, *(count,) * 4, draw.random(), 1.0, 1.0)
                )
            at_ms = DAY_ONE_MS + half_hour * HOUR_MS // 2
            name = f"{cluster}-{half_hour}"
            lines.append(
                line(BUNDLE_LOADS, name, *rows, at_ms=at_ms, cluster=cluster, cycle=half_hour)
            )
        write_segment(directory / f"{cluster}.ndjson.gz", lines)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", *map(str, words)])


def answer(*words: object) -> Any:
    result = run(*words, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_profile_agrees_with_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    history, root, profiles = (tmp_path / name for name in ("history", "tables", "profiles"))
    drawn_history(history, days=5, seed=3)
    taken = answer("ingest", history, "--tables", root)
    assert (taken["segments"], taken["lines"], taken["rows"]) == (2, 9 * 48, 9 * 48 * 6)
    made = answer("profile", root, "--to", profiles, "--only", "hour_profiles", "--days", 4)
    # East has its days 2 to 5, west its days 1 to 4.
    assert made == {
        "bundle_hours": 9 * 24 * 6 - missing_hours(history),
        "hour_profiles": 2 * 24 * 6,
    }

    ours, theirs = profile_of_tables(profiles), profile_of_lines(history, days=4)
    assert len(ours) == len(theirs) == 2 * 24 * 6
    for one, other in zip(ours, theirs, strict=True):
        assert one[:4] == other[:4]
        assert one[4:] == pytest.approx(other[4:], rel=1e-9)

    # A day that was profiled is not read again: there is nothing left that could be read. A day to
    # which a line came is.
    for path in (root / "bundle_loads").glob("dt=2026-01-0[1-4]/**/*.parquet"):
        path.write_bytes(b"no Parquet")
    row = BundleLoadRow("t/n/new", "b", *(1.0,) * 4, *(1,) * 4, 0.5, 1.0, 1.0)
    late = line(BUNDLE_LOADS, "late", row, at_ms=DAY_ONE_MS + 5 * 24 * HOUR_MS - 1, cycle=999)
    write_segment(history / "late.ndjson.gz", [late])
    assert answer("ingest", history, "--tables", root)["rows"] == 1
    again = answer("profile", root, "--to", profiles, "--only", "bundle_hours")
    assert again == {"bundle_hours": made["bundle_hours"] + 1}


def missing_hours(history: Path) -> int:
    """Hours in both halves of which a bundle was not reported."""
    reported = answered(
        "SELECT count(DISTINCT (cluster, bundle, at_ms // 3600000)) FROM ("
        "SELECT cluster, at_ms, unnest(bundle) AS bundle, unnest(bytes_in) AS bytes_in"
        f" FROM read_json('{history}/*.ndjson.gz', format='newline_delimited'))"
        " WHERE bytes_in IS NOT NULL"
    )
    return int(9 * 24 * 6 - reported[0][0])


@pytest.mark.slow
def test_a_synthesised_history_is_ingested_and_profiled(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, root, profiles = (tmp_path / name for name in ("history", "tables", "profiles"))
    size = ("--hours", 1, "--brokers", 2)
    written = answer("synth", history, "--scenario", "broker-death", *size)
    assert written["clusters"] == 1
    assert written["bundle_loads"] >= 59 * 100
    taken = answer("ingest", history, "--tables", root, "--check")
    counts = {each["table"]: each["rows"] for each in taken["tables"]}
    assert taken["rows"] == written["rows"]
    assert (counts["bundle_loads"], counts["lines"]) == (written["bundle_loads"], written["lines"])
    assert (counts["quarantine"], taken["faulty_lines"], taken["unreadable"]) == (0, 0, 0)
    made = answer("profile", root, "--to", profiles)
    assert list(made) == PROFILES
    assert made["load_skew"] == counts["policy_memory"]
    assert made["capacity_fit"] == 2
    assert answer("ingest", history, "--tables", root)["batches"] == 0

    # All of it in one go, and one session, comes to the same.
    study = tmp_path / "study"
    whole = answer("run", history, "--to", study)
    assert whole["ingest"]["rows"] == taken["rows"]
    assert whole["profile"] == made
    assert whole["size"] == answer("size", profiles)
    assert whole["report"]["page"] == str(study / "report.html")
    alone = answer("report", profiles, "--tables", root, "--to", tmp_path / "alone.html")
    assert whole["report"]["sections"] == alone["sections"]
    assert "<html" in (study / "report.html").read_text(encoding="utf-8")

    mixed = run("synth", history)
    assert mixed.exit_code == 1
    assert "is not empty" in mixed.output
    nothing = run("profile", tmp_path / "nowhere", "--to", profiles)
    assert nothing.exit_code == 1
    assert "no history was taken in" in nothing.output
    unknown = run("profile", root, "--to", profiles, "--only", "weather")
    assert unknown.exit_code == 1
    assert "'weather' is not a result: one of load_skew, " in unknown.output
    spoilt = run("ingest", tmp_path / "nowhere", "--tables", root)
    assert spoilt.exit_code == 1
    assert "no such directory" in spoilt.output


PROFILES = [
    *(
        "load_skew",
        "bundle_hours",
        "hour_profiles",
        "weekday_profiles",
        "hot_bundles",
        "hot_topics",
    ),
    *("ownership_churn", "moved_load", "unload_effects", "session_counts", "leadings", "handovers"),
    *("capacity_fit", "shape_advice", "forecast_errors"),
]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("synth", "h", "--scenario", "no-such"), 2, "one of steady-skew, diurnal"),
        (("ingest", "h", "--tables", "t", "--conf", "memory=1"), 2, "KEY begins with spark."),
        (("ingest", "h"), 2, "--tables"),
        (("profile", "t"), 2, "--to"),
        (("ingest", "h", "--tables", "t", "--config", "nowhere.conf"), 2, "nowhere.conf"),
        (("expire", "t"), 2, "--older-than"),
        (("expire", "t", "--older-than", "0"), 2, "0 is not in the range x>=1"),
    ],
)
def test_wrong_options_are_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert (result.exit_code, said in result.output) == (code, True), result.output


def test_without_java_it_is_said_what_was_looked_for(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    environ = {**os.environ, "JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "broker_ctl", "pipeline", "ingest", "h", "--tables", "t"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        timeout=500,
    )
    assert done.returncode == 1
    assert f"no Java 17 or newer in JAVA_HOME or PATH ({java} is Java 11)" in done.stderr
    assert "openjdk-17" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["ingest", "compact", "expire", "profile", "synth"])
def test_help_has_examples_and_starts_nothing(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert f"broker-ctl pipeline {verb} " in result.output.partition("Examples:")[2]
