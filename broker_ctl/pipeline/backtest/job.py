"""The back-test job: one Spark task for each trace, candidate and seed.

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

from broker_ctl.codec import decode, encode
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline import tables
from broker_ctl.pipeline.backtest.judging import compare, pareto_fronts
from broker_ctl.pipeline.backtest.results import (
    COMPARISONS,
    DAYS,
    FRONT,
    REPLAYS,
    ComparisonRow,
    DayRow,
    FrontRow,
    Named,
    ReplayRow,
)
from broker_ctl.pipeline.backtest.tasks import Task, replay_task
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.tables import Table

# Called with the number of finished tasks.
Progress = Callable[[int], None]

# The number of a task, why it failed, and if it has not, its days as JSON and its row.
_TRIED: Final = StructType(
    [
        StructField("task", LongType(), nullable=False),
        StructField("why", StringType()),
        StructField("days", StringType()),
        *(StructField(field.name, field.dataType) for field in REPLAYS.schema),
    ]
)

_LOOK_EVERY_S: Final = 0.5


class TaskFault(NamedTuple):
    """A replay that failed.

    Attributes:
        why: names the replay and the error.
    """

    candidate: Named
    why: str


class Replays(NamedTuple):
    """The results of all tasks, in their order."""

    rows: list[ReplayRow]
    faults: list[TaskFault]
    days: Sequence[DayRow] = ()


class CandidateVerdict(NamedTuple):
    """All results of a back-test; of a candidate with a failed replay only the failure."""

    replays: list[ReplayRow]
    comparisons: list[ComparisonRow]
    front: list[FrontRow]
    faults: list[TaskFault]
    days: Sequence[DayRow]

    @classmethod
    def of(cls, found: Replays, baseline: Named) -> Self:
        """Compare the candidates that can be compared.

        A candidate that fails in difficult replays would look better without them, so it is
        excluded from all.

        Raises:
            PipelineError: a replay of the baseline failed.
        """
        failed = {fault.candidate: fault.why for fault in reversed(found.faults)}
        if baseline in failed:
            raise PipelineError(f"{failed[baseline]}: there is nothing to hold the others against")
        rows = [row for row in found.rows if Named(row.policy, row.parameters) not in failed]
        days = [row for row in found.days if Named(row.policy, row.parameters) not in failed]
        return cls(rows, [*compare(rows, baseline)], [*pareto_fronts(rows)], found.faults, days)


def backtest(
    spark: SparkSession, tasks: Sequence[Task], baseline: Named, target: str, progress: Progress
) -> CandidateVerdict:
    """Replay all tasks, judge them, and replace the tables of `results`.

    Args:
        spark: the session.
        tasks: see `tasks.tasks_of`.
        baseline: the candidate that the others are compared with.
        target: root of the tables.
        progress: called with the number of finished tasks.

    Raises:
        PipelineError: a replay of the baseline failed, or nothing can be written.
    """
    with translate_spark_errors("a replay"):
        found = replay_all(spark, tasks, progress)
    verdict = CandidateVerdict.of(found, baseline)
    with translate_spark_errors(target):
        _write(spark, verdict.replays, target, REPLAYS)
        _write(spark, verdict.comparisons, target, COMPARISONS)
        _write(spark, verdict.front, target, FRONT)
        _write(spark, verdict.days, target, DAYS)
    return verdict


def replay_all(spark: SparkSession, tasks: Sequence[Task], progress: Progress) -> Replays:
    """Run every task; a failed one does not affect the others."""
    every = tuple(tasks)
    # A task is sent its numbers, and of the others what they share.
    traces = list(dict.fromkeys(each.trace for each in every))
    candidates = list({id(each.candidate): each.candidate for each in every}.values())
    places = {id(each): place for place, each in enumerate(candidates)}
    numbers = [
        (number, traces.index(each.trace), places[id(each.candidate)], each.seed)
        for number, each in enumerate(every)
    ]

    def run(parts: Iterable[Any]) -> Iterator[Any]:
        pandas: Any = import_module("pandas")
        for part in parts:
            rows = [
                (number, *_run_task(Task(traces[trace], candidates[candidate], int(seed))))
                for number, trace, candidate, seed in part.itertuples(index=False)
            ]
            columns = zip(_TRIED.names, zip(*rows, strict=True), strict=True)
            # As objects: pandas would turn whole numbers beside a null into doubles.
            yield pandas.DataFrame(
                {name: pandas.Series(each, dtype=object) for name, each in columns}
            )

    # Each replay is a Spark task.
    rows = spark.sparkContext.parallelize(numbers, len(numbers))
    frame = spark.createDataFrame(rows, "number long, trace long, candidate long, seed long")
    with _reporting_progress(spark.sparkContext, progress):
        found = frame.mapInPandas(run, _TRIED).collect()
    return Replays(
        [ReplayRow(*row) for _, why, _, *row in found if why is None],
        [
            TaskFault(every[number].candidate.named, why)
            for number, why, *_ in found
            if why is not None
        ],
        [DayRow(*day) for _, _, days, *_ in found for day in decode((days or "[]").encode())],
    )


def _run_task(task: Task) -> tuple[object, ...]:
    """Run one replay; return the failure or None, and the columns of its row."""
    try:
        found = replay_task(task)
    except PipelineError as error:
        return str(error), None, *[None] * len(ReplayRow._fields)
    # The encoder takes lists, and refuses NamedTuples.
    return None, encode([[*day] for day in found.days]).decode(), *found.row


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
        # If the JVM has ended, the job itself raises the error.
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
