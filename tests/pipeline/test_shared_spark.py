"""A test that ends by its time limit costs the others their session, not their answers."""

import pytest
from pyspark.sql import SparkSession

from tests.support.pipeline.spark import SharedSpark


@pytest.mark.slow
def test_a_session_whose_java_has_ended_is_replaced(
    spark: SparkSession, shared_spark: SharedSpark
) -> None:
    assert shared_spark.session() is spark
    shared_spark.kill()
    shared_spark.discard()
    replaced = shared_spark.session()
    assert replaced is not spark
    assert replaced.range(3).count() == 3
