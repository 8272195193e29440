"""The job that takes a history in: from segments to tables (reference: D.1).

Late rows need no watermark: a row belongs to the day of its ``at_ms``, whenever it comes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.failures import sentence_of
from broker_ctl.pipeline.folders import is_there, located
from broker_ctl.pipeline.sinks import Sink
from broker_ctl.pipeline.sources import segments
from broker_ctl.pipeline.tables import BatchRow

# Spark's own file of what it has done; names that begin so are no part of a table.
_CHECKPOINT: Final = "_checkpoint"


@dataclass(frozen=True, slots=True)
class IngestRules:
    """How a history is taken in.

    Attributes:
        batch_bytes: of segments that are taken in at once; what a batch needs of memory and disk
            grows with it.
        every_s: go on, and look for new segments so often; None: stop when there are no more.
    """

    batch_bytes: int
    every_s: float | None = None


def ingest(
    spark: SparkSession,
    directory: str,
    root: str,
    rules: IngestRules,
    told: Callable[[BatchRow], None],
) -> None:
    """Take in what is new in a directory of segments.

    Args:
        spark: the session.
        directory: what daemons write as loadHistoryDirectory, or a directory of such.
        root: of the tables; made if it is missing.
        rules: how much at once, and how often.
        told: hears of each batch when it counts.

    Raises:
        PipelineError: there is no such directory, or something cannot be read or written.
    """
    source, target = located(directory), located(root)
    if not is_there(spark, source):
        raise PipelineError(f"{directory}: no such directory; it should hold segments (.ndjson.gz)")
    sink = Sink(spark, target, told)
    sink.sweep()
    stream = segments(spark, source, rules.batch_bytes).writeStream.foreachBatch(sink.take_in)
    stream = stream.option("checkpointLocation", f"{target}/{_CHECKPOINT}")
    if rules.every_s is None:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{rules.every_s} seconds")
    query = stream.start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise sink.failure or PipelineError(f"{directory}: {sentence_of(error)}") from error
    finally:
        query.stop()
