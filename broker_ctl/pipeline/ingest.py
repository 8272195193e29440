"""The ingest job: from segments of a history to tables (docs: load-history-sources).

Late rows need no watermark: a row belongs to the day of its ``at_ms``, whenever it arrives.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.filesystem import local_path, path_exists, resolve_location
from broker_ctl.pipeline.settings import PipelineSettings
from broker_ctl.pipeline.sinks import Sink
from broker_ctl.pipeline.sources import segments
from broker_ctl.pipeline.spark_errors import sentence_of
from broker_ctl.pipeline.tables import BatchRow

# Spark's checkpoint; directories with an underscore in front are not part of a table.
_CHECKPOINT: Final = "_checkpoint"
_LOCK: Final = "_lock"


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
        root: of the tables; made if it is missing.
        rules: how much at once, and how often.
        on_batch: hears of each batch when it counts.

    Raises:
        PipelineError: there is no such directory, another ingest writes the same tables, or
            something cannot be read or written.
    """
    source, target = resolve_location(directory), resolve_location(root)
    if not path_exists(spark, source):
        raise PipelineError(f"{directory}: no such directory; it should hold segments (.ndjson.gz)")
    with alone(local_path(spark, target)):
        sink = Sink(spark, target, on_batch, rules.segment_bytes)
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


@contextmanager
def alone(directory: Path | None) -> Iterator[None]:
    """Lock the tables: another ingest would delete incomplete batches of this one.

    Args:
        directory: of the tables; None: they are not on this machine, and there is no lock.

    Raises:
        PipelineError: another ingest runs, or the directory is not writable.
    """
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("ab")
    except OSError as error:
        raise PipelineError(f"{directory}: {error.strerror}") from error
    with lock:
        try:
            # The kernel releases the lock when the process ends, even by SIGKILL.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineError(f"{directory}: another ingest takes a history in there") from error
        except OSError as error:
            raise PipelineError(f"{directory / _LOCK}: {error.strerror}") from error
        yield
