"""A worker finds exact medians."""

import random
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from broker_ctl.pipeline.reading.hourly import MedianTask
from tests.support.pipeline.parquet_tables import arrow

TASK = MedianTask(("cluster", "hour"), ("rate", "bytes"), "days")
SCHEMA = StructType(
    [
        StructField("cluster", StringType(), nullable=False),
        StructField("hour", LongType(), nullable=False),
        StructField("days", LongType(), nullable=False),
        StructField("rate", DoubleType(), nullable=False),
        StructField("bytes", DoubleType()),
    ]
)


def batch(rows: Sequence[tuple[str, int, float | None, float | None]]) -> Any:
    names = [field.name for field in TASK.taken(SCHEMA)]
    return arrow.record_batch(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_medians_are_those_of_the_values_that_there_are() -> None:
    draw = random.Random(1)
    rows = [
        (
            draw.choice("abc"),
            draw.randrange(4),
            draw.choice([None, *(draw.expovariate(1) for _ in range(3))]),
            draw.random(),
        )
        for _ in range(200)
    ]
    rows += [("lonely", 1, 5.0, 2.0), ("silent", 1, None, 1.0), ("silent", 1, None, 4.0)]
    (found,) = TASK(iter([batch(rows[:90]), batch(rows[90:])]))
    assert found.schema.names == TASK.given(SCHEMA).names
    values = defaultdict(list)
    for cluster, hour, *measures in rows:
        values[cluster, hour].append(measures)
    assert {tuple(row.values()) for row in found.to_pylist()} == {
        (*key, len(each), *(median_of([one[place] for one in each]) for place in (0, 1)))
        for key, each in values.items()
    }
    assert found.num_rows == len(values)


def median_of(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return median(there) if there else None


def test_of_nothing_there_are_none() -> None:
    assert [*TASK(iter([]))] == []
    assert [*TASK(iter([batch([("a", 1, 1.0, 1.0)]).slice(0, 0)]))] == []
