"""The verb on tables that are there: a back-test, daily profiles, and a history."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from broker_ctl.cli.main import main
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.pipeline.backtest.results import COMPARISONS, REPLAYS, Named
from broker_ctl.pipeline.tables import BATCHES, HISTORY
from broker_ctl.pipeline.transforms.hours import BUNDLE_HOURS, HOUR_PROFILES
from tests.support.pipeline.backtest_rows import USUAL, comparisons, replays
from tests.support.pipeline.parquet_tables import write_rows
from tests.support.pipeline.segment_files import DAY_MS, DAY_ONE_MS, HOUR_MS

WIDE = Named("settings", "loadBalancerPlannerHighPercentage=120")
BUNDLES = [f"t/n/0x{number << 28:08x}_0x{(number + 1) << 28:08x}" for number in range(4)]
DAY = range(8, 20)
STAMP = {"epoch": 2, "at_ms": DAY_ONE_MS + DAY_MS - 60_000}


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "recommend", *map(str, words)])


def test_a_back_test_becomes_lines(spark: SparkSession, tmp_path: Path) -> None:
    rows = replays("diurnal", {USUAL: [(1.2, 2.0, 0)] * 6, WIDE: [(1.2, 1.0, 0)] * 6})
    write_rows(tmp_path, REPLAYS, *(row._asdict() for row in rows))
    write_rows(tmp_path, COMPARISONS, *(row._asdict() for row in comparisons(rows)))
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "loadBalancerPlannerHighPercentage=120"
    answer = json.loads(run(tmp_path, "--output", "json").stdout)
    assert answer["settings"] == {"loadBalancerPlannerHighPercentage": "120"}
    assert answer["supported"][0]["evidence"][1] == {
        "trace": "diurnal",
        "measure": "load_moved_pct_per_h",
        "pairs": 6,
        "baseline_mean": 2.0,
        "candidate_mean": 1.0,
        "difference": -1.0,
        "low": -1.0,
        "high": -1.0,
        "chance": 1 / 64,
    }


def usual_day(profiles: Path, hours: range) -> None:
    """Of two clusters; two bundles are busy by day, two by night."""
    usages = [
        {"bundle": bundle, "hour": hour, "usage_ratio": 0.4 if is_by_day == (hour in DAY) else 0.0}
        for bundle, is_by_day in zip(BUNDLES, (True, True, False, False), strict=True)
        for hour in hours
    ]
    rows = [{"cluster": name, "days": 1, **usage} for name in ("east", "west") for usage in usages]
    write_rows(profiles, HOUR_PROFILES, *rows)
    ends = (DAY_ONE_MS + hour * HOUR_MS for hour in (hours[0], hours[-1]))
    first = {"cluster": "east", "bundle": BUNDLES[0]}
    write_rows(profiles, BUNDLE_HOURS, *({**first, "hour_ms": hour_ms} for hour_ms in ends))


def owned(root: Path) -> None:
    """Three cycles: the last one has only come in part, the first is of an earlier leader."""
    write_rows(root, BATCHES, {"batch": "one"})
    brokers = [
        {**STAMP, "cycle": cycle, "broker": broker, "is_draining": broker == "c"}
        for cycle in (7, 8)
        for broker in ("a", "b", "c")
    ]
    write_rows(root, HISTORY["broker_loads"], *brokers)
    owners = {(1, 9): "bbbb", (2, 7): "aabb", (2, 8): "b"}
    bundles = [
        {**STAMP, "epoch": epoch, "cycle": cycle, "bundle": bundle, "owner": owner}
        for (epoch, cycle), text in owners.items()
        for bundle, owner in zip(BUNDLES, text, strict=False)
    ]
    write_rows(root, HISTORY["bundle_loads"], *bundles)
    sizes = [
        {**STAMP, "epoch": epoch, "cycle": 1, "broker": "a", "size_ratio": size}
        for epoch, size in ((1, 5.0), (2, 1.0))
    ]
    write_rows(root, HISTORY["capacities"], *sizes)


def test_a_daily_profile_becomes_a_plan(spark: SparkSession, tmp_path: Path) -> None:
    profiles, root, plan = (tmp_path / name for name in ("profiles", "tables", "plan.json"))
    usual_day(profiles, range(24))
    owned(root)
    words = ("--profiles", profiles, "--tables", root, "--plan-to", plan)
    several = run(*words)
    assert several.exit_code == 1
    assert "--cluster NAME says which: east, west" in several.output
    done = run(*words, "--cluster", "east", "--output", "json")
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)["plan"]
    file = PlanFile.of_row(json.loads(plan.read_bytes()))
    assert file.hash == row["hash"]
    assert [(str(move.bundle), move.source, move.destination) for move in file.moves] == [
        (BUNDLES[1], "a", "b"),
        (BUNDLES[3], "b", "a"),
    ]
    assert [move.load for move in file.moves] == pytest.approx([0.2, 0.2])
    assert (file.before, file.after) == ((2.0,) * 24, (1.0,) * 24)
    # Its last hour was not over when the history ended.
    assert (file.from_ms, file.to_ms) == (DAY_ONE_MS, STAMP["at_ms"])
    assert "a leader would refuse this plan: the profile of the plan ended" in done.stderr
    again = run(*words, "--cluster", "east")
    assert again.exit_code == 2
    assert "--force replaces it" in again.output


def test_missing_inputs_are_refused_and_no_plan_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    profiles, plan = tmp_path / "profiles", tmp_path / "plan.json"
    nothing = run(tmp_path / "nowhere")
    assert nothing.exit_code == 1
    assert "no back-test was made here: broker-ctl pipeline backtest does it" in nothing.output
    words = ("--profiles", profiles, "--tables", tmp_path / "tables", "--plan-to", plan)
    unprofiled = run(*words)
    assert unprofiled.exit_code == 1
    assert "no plan was written: " in unprofiled.output
    assert "no daily profiles: broker-ctl pipeline profile makes them" in unprofiled.output
    usual_day(profiles, range(9, 11))
    owned(tmp_path / "tables")
    short = run(*words, "--cluster", "east")
    assert short.exit_code == 1
    assert "knows 2 of 24 hours (UTC: 9, 10), a plan needs them all" in short.output
    assert not plan.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to recommend from: name a directory of pipeline backtest, or use --plan-to"),
        (("b", "--plan-to", "p.json"), "--plan-to, --profiles and --tables must be given together"),
        (("b", "--profiles", "p", "--tables", "t"), "must be given together"),
    ],
)
def test_bad_options_are_refused_before_spark_starts(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert (result.exit_code, said in result.output) == (2, True), result.output
