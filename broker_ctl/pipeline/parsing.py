"""From lines to rows, as `core/history/lines.py` reads them, in column expressions.

Faults of a line are found before its rows are built: a line is ingested whole, or goes to
quarantine whole. Missing columns of an older format get their defaults.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from broker_ctl.core.history.catalog import KINDS
from broker_ctl.core.history.columns import Column as Declared
from broker_ctl.core.history.columns import ColumnType, Kind
from broker_ctl.core.history.lines import STAMP
from broker_ctl.pipeline.sources import MAX_LINE_CHARS
from broker_ctl.pipeline.tables import DAY, STAMPED, TYPES, schema_of

# Strict JSON (RFC 8259).
_STRICT: Final = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_LISTS: Final = frozenset({ColumnType.TEXTS, ColumnType.INTEGERS})
_WRONG: Final = "_wrong"
# From 2000 to 2100: other times come from a wrong clock, and would create partitions for their
# days.
_FIRST_MS: Final = 946_684_800_000
_END_MS: Final = 4_102_444_800_000


def parse_lines(lines: DataFrame) -> DataFrame:
    """Parse lines into columns.

    Args:
        lines: file, line, text; see `sources.lines`.

    Returns:
        The columns of the stamp; dt, the day of at_ms; file, line; rows, how many it holds; fault,
        null if there is none; text, null if there is none; and, named as each kind, a struct of
        its columns, null where the line is of another kind.
    """
    array = ArrayType(schema_of(STAMP.columns))
    # Parsed in brackets: otherwise Spark would ignore text behind the object.
    bracketed = F.from_json(F.concat(F.lit("["), "text", F.lit("]")), array, _STRICT)
    stamped = (
        lines.select("file", "line", "text", bracketed.alias("stamps"))
        .withColumn("stamp", F.when(F.size("stamps") == 1, F.get("stamps", F.lit(0))))
        .withColumn("fault", _stamp_fault())
        .select("file", "line", "text", "fault", "stamp.*")
    )
    known = stamped.select(*stamped.columns, *(_body(kind).alias(name) for name, kind in _kinds()))
    fault = F.coalesce("fault", *(_kind_fault(kind) for _, kind in _kinds()))
    rows = F.coalesce(*(_rows(kind) for _, kind in _kinds()), F.lit(0)).cast(LongType())
    judged = known.withColumn("fault", fault).withColumn("rows", rows)
    has_fault = F.col("fault").isNotNull()
    # The day of a line with a fault is null: its time may be out of range.
    day = F.when(~has_fault, F.to_date(F.timestamp_millis("at_ms")))
    return judged.withColumn("text", F.when(has_fault, F.col("text"))).withColumn(DAY, day)


def rows_of(kind: Kind[Any], lines: DataFrame) -> DataFrame:
    """The rows of the lines of one kind that have no fault; columns of its table, without batch."""
    of_kind = lines.where((F.col("kind") == kind.name) & F.col("fault").isNull())
    own = [F.col(f"{kind.name}.{column.name}") for column in kind.columns]
    beside = [*(column.name for column in STAMPED if column.name != "id"), "cluster", DAY]
    flat = of_kind.select("id", "format", *beside, *own)
    if kind.is_packed:
        # A list that an older format lacks becomes a list of nulls of the same length.
        lists = [F.coalesce(each.name, F.array()).alias(each.name) for each in kind.columns]
        flat = flat.select("id", "format", *beside, *lists)
        packed = F.arrays_zip(*(F.col(each.name) for each in kind.columns))
        one = flat.select("id", "format", *beside, F.posexplode(packed).alias("place", "row"))
        numbered = F.concat_ws("/", "id", "place").alias("id")
        flat = one.select(numbered, "format", *beside, "row.*")
    return flat.select("id", *beside, *(_value(column) for column in kind.columns))


def _kinds() -> Iterator[tuple[str, Kind[Any]]]:
    yield from KINDS.items()


def _body(kind: Kind[Any]) -> Column:
    """The result of `from_json` for a line of this kind; null for other lines."""
    types = schema_of(kind.columns).fields
    fields = [
        StructField(each.name, ArrayType(each.dataType) if kind.is_packed else each.dataType)
        for each in types
    ]
    schema = StructType([*fields, StructField(_WRONG, StringType())])
    options = {**_STRICT, "columnNameOfCorruptRecord": _WRONG}
    return F.when(_is_of(kind) & F.col("fault").isNull(), F.from_json("text", schema, options))


def _is_of(kind: Kind[Any]) -> Column:
    return F.col("kind") == kind.name


def _fault_text(*faults: tuple[Column, str]) -> Column:
    """Text of the first condition that holds."""
    return F.coalesce(*(F.when(condition, F.lit(words)) for condition, words in faults))


def _stamp_fault() -> Column:
    stamp = F.col("stamp")
    missing = [
        (stamp[column.name].isNull(), f"{column.name} is missing, or is not {column.type}")
        for column in STAMP.columns
    ]
    newest = F.create_map(*(F.lit(each) for k in KINDS.values() for each in (k.name, k.format)))
    is_day = (stamp["at_ms"] >= _FIRST_MS) & (stamp["at_ms"] < _END_MS)
    return _fault_text(
        (F.col("text").isNull(), f"longer than {MAX_LINE_CHARS} characters"),
        (F.col("text") == "", "an empty line"),
        (stamp.isNull(), "not a JSON object"),
        *missing,
        (~stamp["kind"].isin(*KINDS), "no kind of history"),
        (stamp["format"] < 1, "format below 1"),
        (stamp["format"] > newest[stamp["kind"]], "a newer release wrote it"),
        (stamp["id"] == "", "id is empty"),
        (stamp["cluster"] == "", "cluster is empty"),
        (~is_day, "at_ms is not between 2000 and 2100"),
    )


def _kind_fault(kind: Kind[Any]) -> Column:
    body = F.col(kind.name)
    needed = [column for column in kind.columns if not column.is_optional]
    faults = [(body[_WRONG].isNotNull(), "a column is of another type")]
    if kind.is_packed:
        faults.append(
            (_any_of(kind.columns, lambda name: body[name].isNull()), "a list is missing")
        )
        unequal = _any_of(kind.columns, lambda name: F.size(body[name]) != _rows(kind))
        faults.append((unequal, "its lists are not equally long"))
        packed = F.arrays_zip(*(body[column.name].alias(column.name) for column in needed))
        has_null = F.exists(packed, lambda row: _any_of(needed, lambda name: row[name].isNull()))
        faults.append((has_null, "a list has a null that must have none"))
    else:
        is_missing = _any_of(needed, lambda name: body[name].isNull())
        faults.append((is_missing, "a column is missing"))
    lists = [column for column in kind.columns if column.type in _LISTS]
    if lists:
        has_hole = _any_of(lists, lambda name: _has_hole(body[name], is_packed=kind.is_packed))
        faults.append((has_hole, "a list has a null that must have none"))
    return F.when(_is_of(kind), _fault_text(*faults))


def _has_hole(value: Column, *, is_packed: bool) -> Column:
    """Whether a list, or one of several lists, contains a null."""
    hole = F.exists(value, lambda each: F.exists(each, F.isnull) if is_packed else F.isnull(each))
    return F.coalesce(hole, F.lit(False))  # noqa: FBT003  it is the value


def _any_of(columns: Iterable[Declared], has_fault: Callable[[str], Column]) -> Column:
    """Whether the condition holds for any column of the line's format."""
    return reduce(
        or_,
        (
            has_fault(column.name)
            if column.since == 1
            else (F.col("format") >= column.since) & has_fault(column.name)
            for column in columns
        ),
    )


def _original_columns(kind: Kind[Any]) -> list[Declared]:
    return [column for column in kind.columns if column.since == 1]


def _rows(kind: Kind[Any]) -> Column:
    """Number of rows in a line of this kind; null for other lines."""
    body = F.col(kind.name)
    count = F.size(body[_original_columns(kind)[0].name]) if kind.is_packed else F.lit(1)
    return F.when(body.isNotNull(), count)


def _value(column: Declared) -> Column:
    value = F.col(column.name)
    if column.since > 1:
        default = F.lit(column.default).cast(TYPES[column.type])
        value = F.when(F.col("format") < column.since, default).otherwise(value)
    return value.alias(column.name)
