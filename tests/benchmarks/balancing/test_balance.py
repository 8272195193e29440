"""The benchmark of balancing: its object, and its verdict on the policies."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.balancing.course import Wanted
from tests.benchmarks.balancing.part import Part, joined
from tests.benchmarks.balancing.verdict import dominates, verdict

SCRIPT = Path(__file__).parents[1] / "balance.py"
SCORES = {
    *("p50", "p99", "max", "load_moved_pct_per_h", "moves"),
    *("back_and_forth", "settle_min", "overload_broker_min"),
}


def scores(p99: float, moved: float, back_and_forth: int = 0) -> dict[str, Any]:
    return {"p99": p99, "load_moved_pct_per_h": moved, "back_and_forth": back_and_forth}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1.10, 0.5), (1.20, 0.6), True),
        ((1.10, 0.5), (1.10, 0.5), False),
        ((1.10, 0.5), (1.10, 0.6), True),
        ((1.11, 0.5), (1.10, 0.6), True),
        ((1.12, 0.5), (1.10, 0.6), False),
        ((1.10, 0.5), (1.11, 0.5), False),
        ((1.10, 0.5), (1.12, 0.5), True),
        ((1.10, 0.6), (1.50, 0.5), False),
    ],
)
def test_better_in_one_and_worse_in_none(
    one: tuple[float, float], other: tuple[float, float], expected: bool
) -> None:
    assert dominates(scores(*one), scores(*other)) is expected


def test_the_verdict_counts_scenarios() -> None:
    found = verdict(
        {
            "calm": {"overload": scores(1.3, 0.0), "balance": scores(1.1, 0.5)},
            "wild": {"overload": scores(1.1, 0.4), "balance": scores(1.2, 0.5, 2)},
            "plain": {"overload": scores(1.4, 0.9), "balance": scores(1.3, 0.2)},
        },
        {"calm": 1.0, "wild": 1.0, "plain": 1.6},
    )
    assert found["is_dominated_in"] == ["wild"]
    assert found["scenarios"]["plain"] == {
        "dominated_by": [],
        "dominates": ["overload"],
        "lower_p99_than": ["overload"],
    }
    assert (found["dominates"], found["lower_p99_than"]) == ({"overload": 1}, {"overload": 2})
    assert (found["median_p99"], found["median_limit"]) == (1.2, 1.15)
    assert found["back_and_forth"] == 2


def test_without_the_planner_there_is_no_verdict() -> None:
    assert verdict({"calm": {"overload": scores(1.3, 0.0)}}, {"calm": 1.0}) == {}


def test_parts_have_every_run_once_and_one_of_them_measures_planning() -> None:
    def runs(**given: Any) -> Wanted:
        return Wanted.of(names=None, policies=None, hours=1, **given)

    parts = [runs(part=Part(number, 4)) for number in range(1, 5)]
    every = [each for part in parts for each in part.runs]
    assert sorted(map(str, every)) == sorted(map(str, runs().runs))
    assert [part.has_planning for part in parts] == [True, False, False, False]
    seeded = Wanted.of(names=["diurnal"], policies=["balance"], hours=1, seeds=[10, 11])
    labels = [each.source.label for each in seeded.runs]
    assert (labels, seeded.has_planning) == (["diurnal seed 10", "diurnal seed 11"], False)


@pytest.mark.parametrize("text", ["0/4", "5/4", "x/4", "3"])
def test_a_part_that_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Part.parse(text)


def test_joined_parts_are_judged_together() -> None:
    whole = {
        "calm": {"balance": scores(1.1, 0.5), "overload": scores(1.3, 0.7)},
        "wild": {"balance": scores(1.2, 0.5), "overload": scores(1.1, 0.4)},
    }

    def part(policy: str, **rest: Any) -> dict[str, Any]:
        some = {name: {policy: by_policy[policy]} for name, by_policy in whole.items()}
        bound = dict.fromkeys(whole, 1.0)
        return {"scenarios": some, "bound": bound, "peak_rss_mb": 1.0, "machine": {}, **rest}

    found = joined([part("overload"), part("balance", planning_s={"a": 1.0}, peak_rss_mb=2.0)])
    assert found["scenarios"] == whole
    assert list(found["scenarios"]["calm"]) == ["balance", "overload"]
    assert found["verdict"] == verdict(whole, dict.fromkeys(whole, 1.0))
    assert (found["planning_s"], found["peak_rss_mb"]) == ({"a": 1.0}, 2.0)


@pytest.mark.slow
def test_one_hour_of_one_scenario_is_one_object() -> None:
    wanted = ["--scenario", "giant-topic", "--policy", "overload", "--policy", "avg"]
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--hours", "1", "--jobs", "1", *wanted],
        capture_output=True,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert set(found) == {"scenarios", "bound", "verdict", "peak_rss_mb", "machine"}
    by_policy = found["scenarios"]["giant-topic"]
    assert list(by_policy) == ["overload", "avg"]
    assert set(by_policy["avg"]) == SCORES
    assert by_policy["avg"]["p99"] >= found["bound"]["giant-topic"] >= 1.0
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    "words", [("--scenario", "no-such"), ("--policy", "no-such"), ("--events", "events.csv")]
)
def test_an_unknown_name_in_the_options_is_refused_before_anything_runs(
    words: tuple[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", *words], capture_output=True, check=False, timeout=500
    )
    assert done.returncode == 2
    assert b"no-such" in done.stderr or b"--trace" in done.stderr
