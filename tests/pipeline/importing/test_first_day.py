"""A cluster that never ran us: what Prometheus had of it is profiled, reported and back-tested."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from broker_ctl.cli.main import main
from tests.support.pipeline.segment_files import DAY_ONE_MS

HOURS = 3
BUNDLES = [f"t/n/0x{n << 29:08x}_0x{min((n + 1) << 29, 0xFFFFFFFF):08x}" for n in range(8)]


def write_series(path: Path) -> None:
    """Eight bundles on three brokers, the first of which has half of all."""
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["metric", "timestamp", "value", "cluster", "broker", "bundle"])
        for minute in range(HOURS * 60):
            at_s = DAY_ONE_MS // 1000 + minute * 60
            for number, bundle in enumerate(BUNDLES):
                rate = 1e6 * (2 + math.sin(minute / 30 + number)) * (3 if number < 2 else 1)
                labels = ["east", f"b{max(0, number - 2) // 3 + (number > 1)}", bundle]
                writer.writerow(["pulsar_bundle_msg_throughput_in", at_s, rate, *labels])
                writer.writerow(["pulsar_bundle_msg_throughput_out", at_s, rate, *labels])
                writer.writerow(["pulsar_bundle_msg_rate_in", at_s, rate / 1000, *labels])
                writer.writerow(["pulsar_bundle_msg_rate_out", at_s, rate / 1000, *labels])
                writer.writerow(["pulsar_bundle_topics_count", at_s, 4, *labels])


@pytest.mark.slow
def test_the_first_day_has_a_profile_a_report_and_a_back_test(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_series(tmp_path / "saved.csv")

    def answer(line: str) -> Any:
        done = CliRunner().invoke(main, ["pipeline", *line.split(), "--output", "json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    cycles = HOURS * 60
    assert answer("import prometheus saved.csv history --cluster east")["cycles"] == cycles
    taken = answer("ingest history --tables tables --check")
    counts = {each["table"]: each["rows"] for each in taken["tables"]}
    assert (counts["bundle_loads"], counts["broker_loads"]) == (cycles * 8, cycles * 3)
    assert (taken["faulty_lines"], taken["unreadable"]) == (0, 0)
    made = answer("profile tables --to profiles")
    assert (made["bundle_hours"], made["load_skew"]) == (HOURS * 8, cycles)
    policies = "--policy balance --policy threshold"
    played = answer(f"backtest --tables tables --to backtest --seeds 1 {policies}")
    p99 = {row["policy"]: row["p99"] for row in played["front"]}
    assert set(p99) == {"balance", "threshold"}
    assert {row["trace"] for row in played["front"]} == {"cluster:east"}
    answer("report profiles --tables tables --backtest backtest --to report.html")
    report = json.loads((tmp_path / "report.json").read_bytes())
    sections = {each["name"]: each for each in report["sections"]}
    bars = {bar["label"]: bar["value"] for bar in sections["summary"]["charts"][0]["bars"]}
    assert bars["as it was"] > 1.5
    assert {name: bars[name] for name in p99} == p99
    assert sections["summary"]["missing"] == []
    # One seed of one day shows nothing of other days.
    found = answer("recommend backtest")
    assert (found["supported"], len(found["refused"])) == ([], 1)
