"""``pipeline size`` on the hours of a cluster's bundles."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from broker_ctl.cli.main import main
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS
from tests.support.pipeline.parquet_tables import write_rows
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, HOUR_MS

BUNDLES = ("t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff")


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "size", *map(str, words)])


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """Three days of east: its two bundles together fill 2, 3 and 1 mean brokers at noon."""
    rows = [
        {
            "cluster": cluster,
            "bundle": bundle,
            "hour_ms": DAY_ONE_MS + day * DAY_MS + hour * HOUR_MS,
            "usage_ratio": peak / 2 if hour == 12 else 0.1,
        }
        for cluster in ("east", "west")
        for day, peak in enumerate((2.0, 3.0, 1.0))
        for hour in (0, 12)
        for bundle in BUNDLES
    ]
    write_rows(tmp_path, BUNDLE_HOURS, *rows)
    return tmp_path


def test_the_weekly_peak_is_advised_for_and_each_day_judges_the_ones_before(
    spark: SparkSession, profiles: Path
) -> None:
    done = run(profiles, "--cluster", "east", "--output", "json")
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)
    # 0.85 of a broker, the fullest 8 % above the mean: 3 / 0.787 is 4, and one may be lost.
    assert (row["peak_mean_brokers"], row["needed"], row["recommended"]) == (3.0, 4, 5)
    week, day = row["backtests"]
    assert [(v["advised"], v["needed"]) for v in week["verdicts"]] == [(4, 5), (5, 3)]
    assert (week["days_enough"], day["days_enough"]) == (1, 1)
    text = run(profiles, "--cluster", "east")
    assert "1 missing" in text.stdout
    refused = run(profiles)
    assert refused.exit_code == 1
    assert "--cluster NAME says which: east, west" in refused.output
