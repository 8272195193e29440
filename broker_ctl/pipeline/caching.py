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
    kept = frame.localCheckpoint()
    # Its plan is the cached rows; others may cache at the same time.
    jdf: Any = kept._jdf  # noqa: SLF001  Python does not give them
    rows = jdf.queryExecution().logical().rdd()
    try:
        yield kept
    finally:
        rows.unpersist(False)  # noqa: FBT003  Spark's "blocking"
