"""The job that writes a synthesised history, a cluster a task."""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from broker_ctl.pipeline.session import translate_spark_errors
from broker_ctl.pipeline.synthesis.shards import Shard, WrittenShard, write_shard


def synthesise(spark: SparkSession, shards: Sequence[Shard]) -> Iterator[WrittenShard]:
    """Write them all, as many at a time as there are cores; progress is reported a round at a time.

    Raises:
        PipelineError: one cannot be written, or is too large.
    """
    cores = spark.sparkContext.defaultParallelism
    # Several rounds for progress, and none waits long for its last task.
    size = max(cores * 4, -(-len(shards) // 10))
    for first in range(0, len(shards), size):
        some = shards[first : first + size]
        with translate_spark_errors("synth"):
            yield from spark.sparkContext.parallelize(some, len(some)).map(write_shard).collect()
