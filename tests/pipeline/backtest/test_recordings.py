"""Recorded clusters out of tables, value by value; and the verb, from tables to tables."""

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from broker_ctl.cli.main import main
from broker_ctl.core.model.names import Namespace
from broker_ctl.pipeline.backtest import job
from broker_ctl.pipeline.backtest.job import Replays, TaskFault
from broker_ctl.pipeline.backtest.recordings import (
    Minute,
    RecordedCycle,
    Recordings,
    choose_minutes,
)
from broker_ctl.pipeline.backtest.results import COMPARISONS, FRONT, REPLAYS, Named
from broker_ctl.pipeline.backtest.tasks import Task
from broker_ctl.pipeline.tables import BATCHES, HISTORY, Table
from tests.support.pipeline.duckdb_oracle import answered
from tests.support.pipeline.segment_files import DAY_ONE_MS

MINUTE_MS = 60_000
LOW, HIGH = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
RING = [0, 0x80000000, 0xFFFFFFFF]
# Epoch, cycle and second of each cycle; minute 2 has none.
CYCLES = [(1, 1, 5), (1, 2, 40), (1, 3, 65), (2, 1, 185), (2, 2, 230)]


def stamped(at: tuple[int, int, int], values: dict[str, Any]) -> dict[str, Any]:
    epoch, cycle, second = at
    at_ms = DAY_ONE_MS + second * 1000
    stamp = {"cluster": "east", "id": "1", "writer": "a"}
    return {**stamp, "at_ms": at_ms, "epoch": epoch, "cycle": cycle, **values}


def rates(value: float | None) -> dict[str, Any]:
    names = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
    factors = (1, 2, 100, 200)
    parts = (None if value is None else value * factor for factor in factors)
    return {**dict(zip(names, parts, strict=True)), "topics": None if value is None else 3}


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    """Bundle LOW carries 1, 2, 3 and so on by cycle, HIGH the tenfold."""
    for number, (epoch, cycle, second) in enumerate(CYCLES, start=1):
        at = (epoch, cycle, second)
        for bundle, factor, owner in ((LOW, 1, "a"), (HIGH, 10, None if number == 1 else "b")):
            carried = rates(None if number == 1 and bundle == HIGH else float(number * factor))
            yield "bundle_loads", stamped(at, {"bundle": bundle, "owner": owner, **carried})
        for name in ("a", "b"):
            values = {"usage_ratio": number / 10, "is_draining": name == "b" and epoch == 2}
            yield "broker_loads", stamped(at, {"broker": name, **values, **rates(float(number))})
    for at, points in (((1, 1, 5), RING), ((1, 2, 40), [0, 7, 0xFFFFFFFF])):
        yield "bundle_boundaries", stamped(at, {"namespace": "t/n", "boundaries": points})
    for at, cores in (((1, 1, 5), 400.0), ((2, 1, 185), 200.0)):
        yield "capacities", stamped(at, {"broker": "a", "cpu_limit_percent": cores})
    # A cluster without a leader has nothing to replay.
    other = stamped((0, 0, 5), {"bundle": LOW, "owner": "x", **rates(1.0)})
    yield "bundle_loads", {**other, "cluster": "west"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Written without Spark, for which every table is a job."""
    root = tmp_path_factory.mktemp("tables")
    by_table: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows():
        by_table.setdefault(f"{name}/dt=2026-01-01/cluster={row['cluster']}/batch=b", []).append(
            row
        )
    for place, some in by_table.items():
        write_parquet(root / place, HISTORY[place.partition("/")[0]], some)
    batch = dict(zip(BATCHES.schema.names, ("b", 1, 0, 1, 0, 0, 1, 1, None, None), strict=True))
    write_parquet(root / BATCHES.name, BATCHES, [batch])
    return str(root)


def write_parquet(directory: Path, table: Table, some: list[dict[str, Any]]) -> None:
    directory.mkdir(parents=True)
    names = [name for name in table.schema.names if name not in table.partitions]
    whole = to_arrow_schema(table.schema)
    pyarrow = import_module("pyarrow")
    schema = pyarrow.schema([whole.field(name).with_nullable(nullable=True) for name in names])
    values = [{name: row.get(name) for name in names} for row in some]
    made = pyarrow.Table.from_pylist(values, schema=schema)
    import_module("pyarrow.parquet").write_table(made, directory / "part-0.parquet")


@pytest.mark.slow
def test_a_history_is_read_minute_by_minute(spark: SparkSession, warehouse: str) -> None:
    recordings = Recordings(spark, warehouse)
    assert recordings.clusters() == ["east"]
    found = recordings.history("east", None)
    # Of the first and of the last minute the first cycle, of others the last; the third had none.
    assert found.seen.tolist() == [0, 1, 3]
    assert found.rings == {Namespace("t", "n"): tuple(RING)}
    low, high = sorted(found.bundles, key=lambda each: each.bundle)
    assert (str(low.bundle), low.owner, low.topics) == (LOW, "a", 3)
    assert low.cells.tolist() == [0, 1, 3]
    assert low.rates.tolist() == [[1, 3, 4], [2, 6, 8], [100, 300, 400], [200, 600, 800]]
    assert (str(high.bundle), high.owner) == (HIGH, "b")
    assert np.isnan(high.rates[:, 0]).all()
    assert high.rates[0, 1:].tolist() == [30, 40]
    one, other = sorted(found.brokers, key=lambda each: each.broker_id)
    assert (one.broker_id, other.broker_id) == ("a", "b")
    assert other.minutes.tolist() == [0, 1, 3]
    assert other.is_draining.tolist() == [False, False, True]
    assert other.usage.tolist() == [0.1, 0.3, 0.4]
    assert (other.msg_rate.tolist(), other.bytes_s.tolist()) == ([3, 9, 12], [300, 900, 1200])
    assert (one.sizes, other.sizes) == ([(0, 400.0), (3, 200.0)], ())


@pytest.mark.slow
def test_of_a_large_cluster_a_cell_has_the_mean_of_its_minutes(
    spark: SparkSession, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_ctl.pipeline.backtest.recorded.MOST_CELLS", 2)
    found = Recordings(spark, warehouse).history("east", None)
    assert (found.cell_min, found.seen.tolist(), found.cells.tolist()) == (5, [0, 1, 3], [0])
    low, high = sorted(found.bundles, key=lambda each: each.bundle)
    assert low.rates.tolist() == [[pytest.approx(f * 8 / 3)] for f in (1, 2, 100, 200)]
    # What was not reported in a part of it is as in the rest.
    assert high.rates.tolist() == [[35], [70], [3500], [7000]]
    assert (low.owner, high.owner) == ("a", "b")


def cycles(*seconds: int) -> list[Minute]:
    """Minutes with their cycles, which are numbered from 1; the epoch is 1."""
    every = [
        RecordedCycle(1, number, second * 1000) for number, second in enumerate(seconds, start=1)
    ]
    return [
        Minute(minute, *(ends(each for each in every if each.at_ms // MINUTE_MS == minute)))
        for minute in sorted({each.at_ms // MINUTE_MS for each in every})
    ]


def ends(some: Iterable[RecordedCycle]) -> tuple[RecordedCycle, RecordedCycle]:
    listed = list(some)
    return listed[0], listed[-1]


@pytest.mark.parametrize(
    ("seconds", "hours", "expected"),
    [
        # Of the last cycle some rows may not be there yet.
        ((5, 40, 65, 100, 130, 150), None, [1, 4, 5]),
        ((5, 65, 130), None, [1, 2]),
        ((5, 40), None, [1]),
        ((5,), None, [1]),
        ((5, 130, 3660, 3700, 3750), 1, [2, 4]),
        ((5, 130, 3660, 3720, 3750), 1, [3, 4]),
    ],
)
def test_the_very_last_cycle_does_not_count(
    seconds: tuple[int, ...], hours: int | None, expected: list[int]
) -> None:
    assert [each.cycle for each in choose_minutes("east", cycles(*seconds), hours)] == expected


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "backtest", *map(str, words)])


@pytest.mark.slow
def test_a_history_and_a_scenario_are_back_tested(
    spark: SparkSession, warehouse: str, tmp_path: Path
) -> None:
    target = tmp_path / "results"
    size = ("--hours", 1, "--brokers", 2, "--seeds", 2)
    policies = ("--policy", "threshold", "--policy", "settings")
    words = ("steady-skew", "--tables", warehouse, "--to", target, *size, *policies)
    done = run(*words, "--set", "loadBalancerPlannerHighPercentage=120", "--output", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    high = "loadBalancerPlannerHighPercentage=120"
    candidates = [("settings", ""), ("settings", high), ("threshold", "")]
    assert [
        (row["trace"], row["seed"], row["policy"], row["parameters"]) for row in found["replays"]
    ] == [
        (trace, seed, *candidate)
        for trace in ("steady-skew", "cluster:east")
        for seed in (0, 1)
        for candidate in candidates
    ]
    minutes = {row["trace"]: row["minutes"] for row in found["replays"]}
    assert minutes == {"steady-skew": 60, "cluster:east": 4}
    first = found["comparisons"][0]
    assert (first["baseline_policy"], first["baseline_parameters"]) == ("settings", "")
    p99 = {
        (row["policy"], row["parameters"], row["seed"]): row["p99"]
        for row in found["replays"]
        if row["trace"] == "steady-skew"
    }
    mean = sum(p99["settings", high, seed] - p99["settings", "", seed] for seed in (0, 1)) / 2
    assert first["difference"] == pytest.approx(mean)
    for table, name in ((REPLAYS, "replays"), (COMPARISONS, "comparisons"), (FRONT, "front")):
        columns = ", ".join(table.schema.names)
        written = answered(f"SELECT {columns} FROM '{target}/{table.name}/*.parquet'")
        assert written == [tuple(row.values()) for row in found[name]]
        assert list(found[name][0]) == table.schema.names

    unknown = run("--tables", warehouse, "--cluster", "west", "--to", target)
    assert unknown.exit_code == 2
    assert "'west'; " in unknown.output
    assert "has east" in unknown.output
    empty = run("--tables", tmp_path / "nowhere", "--to", target)
    assert empty.exit_code == 1
    assert "no history was taken in" in empty.output


@pytest.mark.slow
def test_a_replay_that_fails_is_reported_and_all_others_are_judged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = job.replay_all

    def one_fails(spark: SparkSession, tasks: Sequence[Task], progress: job.Progress) -> Replays:
        found = real(spark, tasks, progress)
        fault = TaskFault(Named("avg", ""), "steady-skew, seed 0, avg: it broke")
        return Replays([row for row in found.rows if row.policy != "avg"], [fault])

    monkeypatch.setattr(job, "replay_all", one_fails)
    size = ("--hours", 1, "--brokers", 2, "--seeds", 1)
    policies = ("balance", "avg", "threshold")
    options = [word for policy in policies for word in ("--policy", policy)]
    done = run("steady-skew", "--to", tmp_path / "r", *size, *options, "--output", "json")
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "steady-skew, seed 0, avg: it broke\n"
        "Error: 1 of 3 replays failed; their candidates are omitted\n"
    )
    found = json.loads(done.stdout)
    assert found["faults"] == ["steady-skew, seed 0, avg: it broke"]
    assert [row["policy"] for row in found["front"]] == ["balance", "threshold"]
    written = answered(f"SELECT policy FROM '{tmp_path}/r/{REPLAYS.name}/*.parquet'")
    assert written == [("balance",), ("threshold",)]
