"""Exact medians, as a worker finds them in columns of Arrow.

Spark keeps a map of the values of each group, and spills it from some groups on; numpy sorts a
million of them in a tenth of a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True)
class MedianTask:
    """A function for `DataFrame.mapInArrow`: one row of each key, where no key is in two tasks.

    Attributes:
        key: columns that are equal within a group.
        measures: columns of which there are medians; nulls do not count.
        count: name of the column with the number of rows.
    """

    key: Sequence[str]
    measures: Sequence[str]
    count: str

    def taken(self, schema: StructType) -> list[StructField]:
        """The columns of the rows, of those of the result."""
        return [schema[name] for name in (*self.key, *self.measures)]

    def given(self, schema: StructType) -> StructType:
        """The columns of the result, in another order."""
        names = (*self.key, self.count, *self.measures)
        return StructType([StructField(name, schema[name].dataType) for name in names])

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the medians of all rows of the task."""
        some = [*batches]
        if sum(each.num_rows for each in some):
            yield from self._medians(pa.Table.from_batches(some)).to_batches()

    def _medians(self, rows: Any) -> Any:
        first, group, counts = _groups([rows.column(name) for name in self.key])
        keys = {name: rows.column(name).take(pa.array(first)) for name in self.key}
        values = {name: _medians(rows.column(name), group, counts) for name in self.measures}
        return pa.table({**keys, self.count: pa.array(counts, pa.int64()), **values})


def _groups(columns: Sequence[Any]) -> tuple[Any, Any, Any]:
    """The first row of each group; the group of each row; the number of rows of each group."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        code = code * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    _, first, group, counts = np.unique(
        code, return_index=True, return_inverse=True, return_counts=True
    )
    return first, group, counts


def _medians(column: Any, group: Any, counts: Any) -> Any:
    """Of each group; null where it has no value."""
    # Null is not a number here, and goes behind all numbers of its group.
    values = column.to_numpy(zero_copy_only=False)
    order = np.lexsort((values, group))
    there = np.bincount(group, ~np.isnan(values), len(counts)).astype(np.int64)
    starts = np.cumsum(counts) - counts
    low, high = (values[order[starts + np.maximum(at, 0)]] for at in ((there - 1) // 2, there // 2))
    return pa.array(0.5 * low + 0.5 * high, pa.float64(), mask=there == 0)
