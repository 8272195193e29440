"""From judged lines of one kind to Arrow columns of its table."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from broker_ctl.core.history.columns import Column, Kind
from broker_ctl.pipeline.reading.judging import Judged
from broker_ctl.pipeline.tables import STAMPED, schema_of

_ID: Final = "id"


def file_schema(kind: Kind[Any]) -> Any:
    """The Arrow schema of a table's files: without the columns that are directories."""
    fields = [*schema_of(STAMPED).fields, *schema_of(kind.columns).fields]
    return to_arrow_schema(StructType(fields))


def to_arrow(kind: Kind[Any], schema: Any, lines: Sequence[Judged]) -> Any:
    """The rows of some lines, which have no fault, as one batch of Arrow."""
    counts = [line.rows for line in lines]
    place = np.repeat(np.arange(len(lines)), counts)
    arrays = []
    for column in STAMPED:
        type_ = schema.field(column.name).type
        values = pa.array([line.fields[column.name] for line in lines], type_)
        arrays.append(values.take(pa.array(place)) if kind.is_packed else values)
    if kind.is_packed:
        arrays[schema.get_field_index(_ID)] = _numbered(lines)
    for column in kind.columns:
        values = _packed(column, lines) if kind.is_packed else _single(column, lines)
        arrays.append(_array(values, schema.field(column.name).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbered(lines: Sequence[Judged]) -> Any:
    """Ids of the rows of packed lines."""
    return pa.array(
        [f"{head}{row}" for line in lines for head in (f"{line.fields[_ID]}/",)
         for row in range(line.rows)]
    )  # fmt: skip


def _single(column: Column, lines: Sequence[Judged]) -> list[Any]:
    if column.since <= 1:
        return [line.fields.get(column.name) for line in lines]
    return [
        column.default if _lacks(column, line.fields) else line.fields.get(column.name)
        for line in lines
    ]


def _packed(column: Column, lines: Sequence[Judged]) -> list[Any]:
    lists = (
        [column.default] * line.rows if _lacks(column, line.fields) else line.fields[column.name]
        for line in lines
    )
    return list(chain.from_iterable(lists))


def _lacks(column: Column, fields: Mapping[str, Any]) -> bool:
    """Whether the format of the line is older than the column."""
    return bool(column.since > fields["format"])


def _array(values: list[Any], type_: Any) -> Any:
    try:
        return pa.array(values, type_)
    except pa.ArrowInvalid:
        # Arrow refuses integers that no double is equal to.
        return pa.array([None if each is None else float(each) for each in values], type_)
