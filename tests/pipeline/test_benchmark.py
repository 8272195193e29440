"""The benchmark of the pipeline, on a history that is too small for meaningful figures."""

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.benchmarks import pipeline

KEYS = {
    *("rows", "ingest_rows_s", "profile_rows_s", "profile_duckdb_rows_s", "scaling_1x_4x"),
    "profile_over_duckdb",
    *("peak_rss_mb", "python_rss_mb", "java_rss_mb", "synth_rows_s"),
}


@pytest.mark.slow
def test_a_small_history_is_one_object(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The replays have a test of their own.
    words = ("--json", "--no-sweep", "--rows", "20000", "--hours", "1")
    monkeypatch.setattr(sys, "argv", ["pipeline.py", *words, "--directory", str(tmp_path)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    pipeline.main()
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert set(found) == KEYS | {"machine"}
    assert found["rows"] >= 20_000
    assert min(*found["java_rss_mb"], *found["python_rss_mb"]) > 0
    rest = (found[name] for name in KEYS - {"java_rss_mb", "python_rss_mb"})
    assert all(value > 0 for value in rest)
    assert "synthesising 20,000 rows" in printed.err
    assert list(tmp_path.iterdir()) == []
