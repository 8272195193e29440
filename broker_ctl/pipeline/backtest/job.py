"""The job that replays: a task of Spark's for each trace, candidate and seed.

Docs: load-history-sources.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Event, Thread
from typing import Any, Final, NamedTuple, Self
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.backtest.judging import compare, pareto_fronts
from broker_ctl.pipeline.backtest.results import (
    COMPARISONS,
    FRONT,
    REPLAYS,
    ComparisonRow,
    FrontRow,
    ReplayRow,
)
from broker_ctl.pipeline.backtest.tasks import Task, replay_task
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.spark_errors import translate_spark_errors
from broker_ctl.pipeline.tables import Table

# Called with the number of finished tasks.
Progress = Callable[[int], None]

# A task by its number, why it failed, and its row where it has not.
_TRIED: Final = StructType(
    [
        StructField("task", LongType(), nullable=False),
        StructField("why", StringType()),
        *(StructField(field.name, field.dataType) for field in REPLAYS.schema),
    ]
)

_LOOK_EVERY_S: Final = 0.5


class Fault(NamedTuple):
    """A replay that failed.

    Attributes:
        why: which one it was, and what went wrong.
    """

    candidate: Named
    why: str


class Replays(NamedTuple):
    """What came of all tasks, in their order."""

    rows: list[ReplayRow]
    faults: list[Fault]


class Verdict(NamedTuple):
    """All that came of a back-test; of whom a replay failed nothing but that."""

    replays: list[ReplayRow]
    comparisons: list[ComparisonRow]
    front: list[FrontRow]
    faults: list[Fault]

    @classmethod
    def of(cls, found: Replays, baseline: Named) -> Self:
        """Judge those that can be held against each other.

        A candidate that fails where it is hard would look better for it: it is left out everywhere.

        Raises:
            PipelineError: a replay of the baseline failed.
        """
        failed = {fault.candidate: fault.why for fault in reversed(found.faults)}
        if baseline in failed:
            raise PipelineError(f"{failed[baseline]}: there is nothing to hold the others against")
        rows = [row for row in found.rows if Named(row.policy, row.parameters) not in failed]
        return cls(rows, [*compare(rows, baseline)], [*pareto_fronts(rows)], found.faults)


def backtest(
    spark: SparkSession, tasks: Sequence[Task], baseline: Named, target: str, progress: Progress
) -> Verdict:
    """Replay all tasks, judge them, and replace the tables of `results`.

    Args:
        spark: the session.
        tasks: see `tasks.tasks_of`.
        baseline: the candidate that the others are held against.
        target: root of the tables.
        progress: hears of tasks that are done.

    Raises:
        PipelineError: a replay of the baseline failed, or nothing can be written.
    """
    with translate_spark_errors("a replay"):
        found = replay_all(spark, tasks, progress)
    verdict = Verdict.of(found, baseline)
    with translate_spark_errors(target):
        _write(spark, verdict.replays, target, REPLAYS)
        _write(spark, verdict.comparisons, target, COMPARISONS)
        _write(spark, verdict.front, target, FRONT)
    return verdict


def replay_all(spark: SparkSession, tasks: Sequence[Task], progress: Progress) -> Replays:
    """Every task; one that fails takes none of the others with it."""
    every = tuple(tasks)

    def run(parts: Iterable[Any]) -> Iterator[Any]:
        pandas: Any = import_module("pandas")
        for part in parts:
            rows = [(number, *_run_task(every[number])) for number in part["id"].tolist()]
            columns = zip(_TRIED.names, zip(*rows, strict=True), strict=True)
            # Objects stay what they are: a whole number beside a null would become a double.
            yield pandas.DataFrame(
                {name: pandas.Series(each, dtype=object) for name, each in columns}
            )

    # One number in each part, and one part a task.
    numbers = spark.range(0, len(every), 1, numPartitions=len(every))
    with _reporting_progress(spark.sparkContext, progress):
        found = numbers.mapInPandas(run, _TRIED).collect()
    return Replays(
        [ReplayRow(*row) for _, why, *row in found if why is None],
        [Fault(every[number].candidate.named, why) for number, why, *_ in found if why is not None],
    )


def _run_task(task: Task) -> tuple[object, ...]:
    """Why it failed, or None, and the columns of a replay."""
    try:
        return None, *replay_task(task)
    except PipelineError as error:
        return str(error), *[None] * len(ReplayRow._fields)


def _write(
    spark: SparkSession, rows: Sequence[tuple[object, ...]], root: str, table: Table
) -> None:
    frame = spark.createDataFrame([tuple(row) for row in rows], table.schema)
    tables.replace(frame.coalesce(1), resolve_location(root), table)


@contextmanager
def _reporting_progress(context: SparkContext, progress: Progress) -> Iterator[None]:
    """Report finished tasks of the jobs that the block starts."""
    tracker, over, group = context.statusTracker(), Event(), f"back-test {uuid4()}"

    def look() -> None:
        # Where Java has ended, the job says so.
        with suppress(Py4JError, OSError):
            while not over.wait(_LOOK_EVERY_S):
                jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
                stages = (tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds)
                progress(sum(stage.numCompletedTasks for stage in stages if stage))

    context.setJobGroup(group, "replays")
    thread = Thread(target=look, name="back-test progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # none again
