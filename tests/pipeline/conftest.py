"""One Spark session for all tests of the pipeline, and frames made by hand."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from broker_ctl.pipeline.session import open_session
from broker_ctl.pipeline.tables import Table

# What is left out of a row is null, whatever the table says.
Frame = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small one: the data of a test is tiny, and what costs is the planning."""
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        # Compiling a plan takes longer than working it off; so does compiling Spark itself well.
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = open_session("local[2]", conf, os.environ)
    yield session
    session.stop()


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    """Makes a frame of a table's columns from rows with some of them."""

    def make(table: Table, *rows: dict[str, Any]) -> DataFrame:
        fields = [StructField(each.name, each.dataType) for each in table.schema.fields]
        values = [tuple(row.get(each.name) for each in fields) for row in rows]
        assert all(set(row) <= set(table.schema.names) for row in rows)
        return spark.createDataFrame(values, StructType(fields))

    return make
