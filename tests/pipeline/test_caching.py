"""Rows are cached for a block, even if others are cached meanwhile."""

from contextlib import ExitStack

from pyspark.sql import SparkSession

from broker_ctl.pipeline.session import caching


def test_the_end_of_a_block_leaves_what_others_cache(spark: SparkSession) -> None:
    with ExitStack() as first, ExitStack() as second:
        kept = [stack.enter_context(caching(spark.range(5))) for stack in (first, second)]
        first.close()
        assert kept[1].count() == 5
