"""Caches rows that are used several times."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame


@contextmanager
def caching(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache the rows in memory or on disks of the workers until the block ends.

    Unlike with `DataFrame.persist`, frames that derive from them do not carry the plan of the
    cached rows, which Spark would analyse again for every use.
    """
    jsc: Any = frame.sparkSession.sparkContext._jsc  # noqa: SLF001  Python does not list them
    before = set(jsc.getPersistentRDDs())
    try:
        yield frame.localCheckpoint()
    finally:
        for number, rows in jsc.getPersistentRDDs().items():
            if number not in before:
                rows.unpersist()
