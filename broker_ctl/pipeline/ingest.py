"""The ingest job: from segments of a history to tables (docs: load-history-sources).

Late rows need no watermark: a row belongs to the day of its ``at_ms``, whenever it arrives.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.filesystem import alone, local_path, path_exists, resolve_location
from broker_ctl.pipeline.location import Location
from broker_ctl.pipeline.merging import compact_locked
from broker_ctl.pipeline.open_tables.sink import OpenSink
from broker_ctl.pipeline.open_tables.tables import OpenTables
from broker_ctl.pipeline.session import sentence_of, translate_spark_errors
from broker_ctl.pipeline.settings import Format, PipelineSettings
from broker_ctl.pipeline.sinks import Sink
from broker_ctl.pipeline.sources import segments
from broker_ctl.pipeline.tables import BatchRow

# Spark's checkpoint; directories with an underscore in front are not part of a table.
_CHECKPOINT: Final = "_checkpoint"
# Number of batches after which a repeated ingest merges small ones.
_MERGE_AFTER: Final = 60


@dataclass(frozen=True, slots=True)
class IngestRules:
    """Rules of the ingest.

    Attributes:
        batch_bytes: size of the segments of one batch; memory and disk of a batch grow with it.
        every_s: interval of checks for new segments; None: stop when there are no more.
        segment_bytes: size of a segment after decompression; a larger one goes to quarantine.
    """

    batch_bytes: int
    every_s: float | None = None
    segment_bytes: int = PipelineSettings().segment_bytes


def ingest(
    spark: SparkSession,
    directory: str,
    root: str,
    rules: IngestRules,
    on_batch: Callable[[BatchRow], None],
) -> None:
    """Ingest the new segments of a directory.

    Args:
        spark: the session.
        directory: what daemons write as loadHistoryDirectory, or a directory of such.
        root: location of the tables; made if it is missing.
        rules: how much at once, and how often.
        on_batch: hears of each batch when it counts.

    Raises:
        PipelineError: there is no such directory, another ingest writes the same tables, or
            something cannot be read or written.
    """
    source, location = resolve_location(directory), Location.of(root)
    if not path_exists(spark, source):
        raise PipelineError(f"{directory}: no such directory; it should hold segments (.ndjson.gz)")
    if location.format is not Format.PARQUET:
        history = OpenTables(spark, location)
        _ingest_open(OpenSink(history, on_batch, rules.segment_bytes), source, rules)
        return
    target = location.root
    with alone(local_path(spark, target)):
        sink = Sink(spark, target, on_batch, rules.segment_bytes)
        sink.sweep()
        take_in = sink.take_in if rules.every_s is None else _merging_now_and_then(sink, target)
        failures: list[PipelineError] = []
        guarded = _remember_failures(take_in, failures)
        stream = segments(spark, source, rules.batch_bytes).writeStream.foreachBatch(guarded)
        stream = stream.option("checkpointLocation", f"{target}/{_CHECKPOINT}")
        if rules.every_s is None:
            stream = stream.trigger(availableNow=True)
        else:
            stream = stream.trigger(processingTime=f"{rules.every_s} seconds")
        query = stream.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            said = PipelineError(f"{directory}: {sentence_of(error)}")
            raise next(iter(failures), said) from error
        finally:
            query.stop()


def _ingest_open(sink: OpenSink, source: str, rules: IngestRules) -> None:
    """Tables that know which segments they have need no stream."""
    while True:
        with translate_spark_errors(source):
            sink.take_in_new(source, rules.batch_bytes)
        if rules.every_s is None:
            return
        time.sleep(rules.every_s)


def _remember_failures(
    take_in: Callable[[DataFrame, int], None], failures: list[PipelineError]
) -> Callable[[DataFrame, int], None]:
    """As ``take_in``; Spark rewords errors that are raised in it."""

    def guarded(listed: DataFrame, number: int) -> None:
        try:
            with translate_spark_errors("a batch of segments"):
                take_in(listed, number)
        except PipelineError as error:
            failures.append(error)
            raise

    return guarded


def _merging_now_and_then(sink: Sink, root: str) -> Callable[[DataFrame, int], None]:
    """As `Sink.take_in`; a run that never ends keeps its files at a sensible size by itself."""

    def take_in(listed: DataFrame, number: int) -> None:
        sink.take_in(listed, number)
        if number % _MERGE_AFTER == _MERGE_AFTER - 1:
            compact_locked(listed.sparkSession, root, lambda *_: None)
            sink.read_batches()

    return take_in
