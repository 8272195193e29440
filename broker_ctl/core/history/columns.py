"""Declares kinds of rows, and converts their rows to plain JSON values and back.

A row is a NamedTuple whose fields are declared once, in full::

    usage_ratio: Annotated[float, Doc("usage of the fullest resource, 1.0 is full")]

The annotation is the type of the column; ``| None`` means that a value may be unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_args, get_type_hints

from broker_ctl.errors import CorruptRecord, NewerVersion

# Possible values of a column; lists are tuples in a row, and JSON arrays in a line.
Value = str | int | float | bool | Sequence[str] | Sequence[int] | None


class ColumnType(StrEnum):
    """The closed list of types. An integer has 64 bits with a sign, a number is a double."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    TEXTS = "list of text"
    INTEGERS = "list of integer"


class Doc(NamedTuple):
    """Meaning of a column, beyond its name and type.

    Attributes:
        says: the meaning, in words.
        unit: unit of a number; empty for counts, texts and flags.
        since: first format of the kind that has the column.
        default: value of the column in rows of older formats.
    """

    says: str
    unit: str = ""
    since: int = 1
    default: Value = None


class Column(NamedTuple):
    """One column; for the attributes that are not here see `Doc`.

    Attributes:
        is_optional: whether the value may be null: unknown, or not applicable to the row.
    """

    name: str
    type: ColumnType
    is_optional: bool
    says: str
    unit: str
    since: int
    default: Value


RowT = TypeVar("RowT", bound=tuple[Any, ...])

_TYPES: Final[Mapping[object, ColumnType]] = {
    str: ColumnType.TEXT,
    int: ColumnType.INTEGER,
    float: ColumnType.NUMBER,
    bool: ColumnType.FLAG,
    tuple[str, ...]: ColumnType.TEXTS,
    tuple[int, ...]: ColumnType.INTEGERS,
}
_HIGHEST: Final = 2**63 - 1


def columns_of(row: type[RowT]) -> tuple[Column, ...]:
    """Return the columns that a NamedTuple declares, in its order.

    Raises:
        TypeError: a field has no `Doc`, or not one of the types in `ColumnType`.
    """
    return tuple(
        _column(name, hint) for name, hint in get_type_hints(row, include_extras=True).items()
    )


def _column(name: str, hint: Any) -> Column:
    plain, *docs = get_args(hint) or (hint,)
    if len(docs) != 1 or not isinstance(docs[0], Doc):
        raise TypeError(f"column {name}: it must be Annotated[TYPE, Doc(...)]")
    variants = get_args(plain) if NoneType in get_args(plain) else (plain,)
    found = [_TYPES[each] for each in variants if each in _TYPES]
    if len(found) != 1:
        raise TypeError(f"column {name}: no column has the type {plain}")
    return Column(name, found[0], NoneType in variants, *docs[0])


@dataclass(frozen=True, slots=True)
class RowKind(Generic[RowT]):
    """A kind of rows.

    Attributes:
        name: name of the kind in each line, and of its table.
        row: the NamedTuple class of its rows.
        columns: the kind's own columns; the columns of `lines.Stamp` precede them.
        grain: the subject of one row, in words.
        key: columns that identify a row, including columns of the stamp.
        format: current format of the lines; lines of a higher format are not read.
        is_packed: whether a line has many rows: each column is a list with one item per row.
    """

    name: str
    row: Callable[..., RowT]
    columns: tuple[Column, ...]
    grain: str
    key: tuple[str, ...]
    format: int = 1
    is_packed: bool = False

    def to_row(self, row: RowT) -> dict[str, Value]:
        """Return plain JSON values; unknown values are omitted."""
        values = zip(self.columns, row, strict=True)
        return {column.name: value for column, value in values if value is not None}

    def to_columns(self, rows: Iterable[RowT]) -> dict[str, Sequence[Value]]:
        """Return many rows as lists by column; unknown values are null."""
        lists: Iterator[Sequence[Value]] = zip(*rows, strict=True)
        return dict(zip((column.name for column in self.columns), lists, strict=True))

    def parse(self, fields: Mapping[str, Any], format_: int) -> RowT:
        """Parse the result of `to_row`, also from an older release.

        Raises:
            CorruptRecord: a column is missing, or has another type.
            NewerVersion: a newer release wrote it.
        """
        self._check(format_)
        return self.row(*(self._read(column, fields, format_) for column in self.columns))

    def parse_columns(self, fields: Mapping[str, Any], format_: int) -> tuple[RowT, ...]:
        """Parse the result of `to_columns`, also from an older release.

        Raises:
            CorruptRecord: a column is missing, or has another type or another number of items.
            NewerVersion: a newer release wrote it.
        """
        self._check(format_)
        names = [column.name for column in self.columns if column.since <= format_]
        lists = [fields.get(name) for name in names]
        lengths = {len(items) if isinstance(items, list) else -1 for items in lists}
        if len(lengths) != 1 or -1 in lengths:
            raise CorruptRecord(f"{self.name}: each column must be a list, all equally long")
        rows = zip(*(items or () for items in lists), strict=True)
        return tuple(self.parse(dict(zip(names, row, strict=True)), format_) for row in rows)

    def _check(self, format_: int) -> None:
        if format_ > self.format:
            raise NewerVersion(f"{self.name}: format {format_}; this release reads {self.format}")

    def _read(self, column: Column, fields: Mapping[str, Any], format_: int) -> Value:
        if column.since > format_:
            return column.default
        value = fields.get(column.name)
        if value is None and column.is_optional:
            return None
        if not is_of(column.type, value):
            raise CorruptRecord(f"{self.name}: {column.name} is {value!r}, not {column.type}")
        if column.type in {ColumnType.TEXTS, ColumnType.INTEGERS}:
            return tuple(value)  # type: ignore[arg-type]  # it is a list
        return float(value) if column.type is ColumnType.NUMBER else value  # type: ignore[arg-type]


def kind(
    name: str, row: type[RowT], grain: str, *key: str, format_: int = 1, is_packed: bool = False
) -> RowKind[RowT]:
    """Declare a kind by the NamedTuple class of its rows.

    Raises:
        TypeError: a field is not declared as `columns_of` requires.
    """
    return RowKind(name, row, columns_of(row), grain, key, format_, is_packed)


def is_of(type_: ColumnType, value: object) -> bool:
    """Return whether a plain JSON value fits a column type."""
    match type_:
        case ColumnType.TEXT:
            return isinstance(value, str)
        case ColumnType.INTEGER:
            return type(value) is int and abs(value) <= _HIGHEST
        case ColumnType.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ColumnType.FLAG:
            return isinstance(value, bool)
        case ColumnType.TEXTS:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case ColumnType.INTEGERS:
            return isinstance(value, list) and all(type(each) is int for each in value)
