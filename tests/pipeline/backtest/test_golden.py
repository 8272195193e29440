"""The same replay in the process itself and on Spark, to the bit."""

import os
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.strategies.placement.strategies import PLACEMENT
from broker_ctl.core.strategies.shedding_strategies import BALANCE
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.job import TaskFault, replay_all
from broker_ctl.pipeline.backtest.results import Candidate, Named, ReplayRow
from broker_ctl.pipeline.backtest.tasks import (
    BacktestTrace,
    Task,
    recorded_trace,
    replay_task,
    synthetic_trace,
    tasks_of,
)
from broker_ctl.pipeline.session import sentence_of
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.replay.replay import POLICIES, Baseline, replay
from broker_ctl.simulation.replay.scores import scores_of
from broker_ctl.simulation.workload.scenario_workload import WorkloadSource
from tests.support.pipeline.golden_trace import AtHand, golden_trace
from tests.support.pipeline.small_scenarios import small

BOUND = "0x1.0000000000001p+0"
# p50, p99, max, % moved an hour, moves, back and forth, settled, overloaded.
GOLDEN = {
    ("balance", 0): (
        *("0x1.122a7af82cb76p+0", "0x1.2f76c1151dc5bp+0", "0x1.326b582708c85p+0"),
        *("0x1.2ebf7beae3dc5p+7", 47, 0, 3, 32),
    ),
    ("threshold", 0): (
        *("0x1.0b21642c8590cp+0", "0x1.2734b48f54a9ep+0", "0x1.2a7af82cb7562p+0"),
        *("0x1.224bf7d67cd8bp+7", 28, 0, 2, 21),
    ),
    ("balance", 1): (
        *("0x1.0c4c0478bbcedp+0", "0x1.2b851c5265e65p+0", "0x1.2ea5a38b3e265p+0"),
        *("0x1.619500f9bc4dbp+6", 30, 0, 0, 21),
    ),
    ("threshold", 1): (
        *("0x1.1d738a31d738ap+0", "0x1.2e464c272368cp+0", "0x1.2e71463ae7147p+0"),
        *("0x1.6568226647551p+6", 14, 0, 0, 36),
    ),
}
# Three quarters of all on one of two brokers, and no policy: worked out by hand.
STILL = Candidate("settings", "", Baseline(CycleRules(PLACEMENT.find(BALANCE), shedding=None)))
STILL_ROW = ReplayRow(
    "cluster:still", "settings", "", 0, 20, 1.0, 1.5, 1.5, 1.5, 0.0, 0, 0, None, 0
)


POOR = replace(STILL, policy="poor")


def broken(seed: int) -> Scenario:
    """The scenario of a trace that fails."""
    raise ZeroDivisionError(f"of {seed}")


def golden_tasks() -> list[Task]:
    golden = recorded_trace("cluster:golden", AtHand(golden_trace()))
    candidates = [Candidate(name, "", POLICIES[name]()) for name in ("balance", "threshold")]
    still = small([75.0, 25.0], ["a", "b"], minutes=20)
    return [
        *tasks_of([golden], candidates, [0, 1]),
        Task(recorded_trace("cluster:still", AtHand(still)), STILL, 0),
    ]


def exact(row: ReplayRow) -> tuple[object, ...]:
    return tuple(each.hex() if isinstance(each, float) else each for each in row)


GOLDEN_ROWS = [
    *(
        ("cluster:golden", policy, "", seed, 45, BOUND, *found)
        for (policy, seed), found in GOLDEN.items()
    ),
    exact(STILL_ROW),
]


def test_a_replay_has_its_golden_scores_to_the_bit() -> None:
    contestant = POLICIES["threshold"]()
    scores = scores_of(replay(golden_trace(), contestant.rules, contestant.pace))
    assert scores.p99.hex() == GOLDEN["threshold", 0][1]
    assert scores.load_moved_pct_per_h.hex() == GOLDEN["threshold", 0][3]
    assert [exact(replay_task(task).row) for task in golden_tasks()] == GOLDEN_ROWS


@pytest.mark.slow
def test_spark_finds_the_same_to_the_bit(spark: SparkSession) -> None:
    progress: list[int] = []
    # One that fails takes no other with it.
    failing = Task(BacktestTrace("cluster:east", broken), POOR, 7)
    tasks = [*golden_tasks()[:2], failing, *golden_tasks()[2:]]
    found = replay_all(spark, tasks, progress.append)
    assert [exact(row) for row in found.rows] == GOLDEN_ROWS
    why = "cluster:east, seed 7, poor: ZeroDivisionError('of 7')"
    assert found.faults == [TaskFault(Named("poor", ""), why)]
    assert all(0 <= done <= len(tasks) for done in progress)
    context = spark.sparkContext
    threads = context.parallelize([0], 1).map(lambda _: os.environ.get("OMP_NUM_THREADS"))
    assert threads.collect() == ["1"]
    assert not context.getLocalProperty("spark.jobGroup.id")


def test_days_of_a_trace_come_back_from_the_workers_as_they_were(spark: SparkSession) -> None:
    # The second day is the first with its bundles the other way round, and a half day more.
    loads = [[75.0, 25.0]] * 1440 + [[25.0, 75.0]] * 1440 + [[50.0, 50.0]] * 720
    days = small(loads, ["a", "b"], minutes=len(loads))
    tasks = tasks_of([recorded_trace("cluster:days", AtHand(days))], [STILL], [0, 1])
    found = replay_all(spark, tasks, lambda _: None)
    assert found.faults == []
    assert found.days == [day for task in tasks for day in replay_task(task).days]
    assert [(day.seed, day.day) for day in found.days] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_a_replay_that_fails_raises_an_error_with_its_name_and_the_reason() -> None:
    with pytest.raises(PipelineError, match=r"^cluster:east, seed 7, settings: ZeroDivisionError"):
        replay_task(Task(BacktestTrace("cluster:east", broken), STILL, 7))
    with pytest.raises(PipelineError, match=r"^diurnal, seed 1, settings: scenario diurnal: 0"):
        replay_task(Task(synthetic_trace(WorkloadSource("diurnal", hours=0)), STILL, 1))
    # As Spark renders it: the last of the chain, and nothing of Java.
    chain = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "a.py", line 1, in b\n'
        "broker_ctl.errors.SettingsError: first\n\nThe above exception was the direct cause\n"
        "broker_ctl.errors.PipelineError: last\n\tat org.apache.spark\n"
    )
    assert sentence_of(RuntimeError(chain)) == "last"
    foreign = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "a.py", line 1, in b\n    c()\n    ^^^\nValueError: embedded null byte\n\tat org\n'
    )
    assert sentence_of(RuntimeError(foreign)) == "ValueError: embedded null byte"
    assert (
        sentence_of(RuntimeError("\nSomething of Java.\n\tat org.apache")) == "Something of Java."
    )


def test_a_seed_draws_the_traffic_of_a_scenario_and_the_start_of_a_recorded_cluster() -> None:
    drawn = synthetic_trace(WorkloadSource("steady-skew", hours=1, brokers=2)).of_seed
    assert (drawn(1).traffic.bytes_in != drawn(2).traffic.bytes_in).any()
    whole = golden_trace()
    recorded = recorded_trace("cluster:golden", AtHand(whole)).of_seed
    assert recorded(0) is whole
    assert recorded(3).traffic is whole.traffic
    assert recorded(3).owners == recorded(3).owners != recorded(4).owners
    assert set(recorded(3).owners) == {"a", "b", "c"}


def test_a_broker_that_joins_later_owns_nothing_at_the_start() -> None:
    later = small([1.0] * 40, ["a"] * 40, brokers=("a", "b", "c"), absent=["b"])
    owners = recorded_trace("cluster:later", AtHand(later)).of_seed(1).owners
    assert set(owners) == {"a", "c"}
