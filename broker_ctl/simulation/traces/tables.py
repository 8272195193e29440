"""Tables in files: rows from CSV and Parquet files, whatever the format is."""

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.scenario import MOST_CELLS

# Tables in files: what a reader of their rows sees, whatever the format is.


CSV: Final = ".csv"
PARQUET: Final = ".parquet"
# Rows that are read or written at once.
BATCH_ROWS: Final = 1 << 16
_MAX_QUOTED: Final = 80

# Rows on their way into a file.
Columns = Mapping[str, Sequence[object] | NDArray[Any]]


class RowBatch(Protocol):
    """Some rows of a table; columns are asked for by name."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Where each row stands: the line of a CSV file, the number of a Parquet row from 1 on."""
        ...

    @property
    def columns(self) -> Mapping[str, Any]:
        """Those that the file has."""
        ...

    def whole(self, column: str) -> NDArray[np.int64]:
        """Whole numbers from 0 on; -1 where there is none."""
        ...

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Numbers; NaN where there is none."""
        ...

    def texts(self, column: str) -> Sequence[str]:
        """Texts."""
        ...

    def value(self, column: str, offset: int) -> object:
        """One value as it stands in the file."""
        ...


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that holds a table, and the columns that it is to have.

    Attributes:
        what: the file is called so in errors.
    """

    what: str
    path: Path
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """The format."""
        return self.path.suffix.lower()

    def fault(self, message: str, row: int | None = None) -> SettingsError:
        """What is wrong with the file, or with one row of it."""
        by_format = f":{row}" if self.suffix == CSV else f" row {row}"
        return SettingsError(
            f"{self.what} {self.path}{'' if row is None else by_format}: {message}"
        )

    def check_columns(self, columns: Collection[str], row: int | None = None) -> None:
        """Each column once, in any order.

        Raises:
            SettingsError: one is missing, unknown or there twice.
        """
        has_required = set(self.required) <= set(columns)
        has_known = set(columns) <= {*self.required, *self.optional}
        if not has_required or not has_known or len(set(columns)) < len(columns):
            allowed = f"the columns must be {','.join(self.required)}"
            if self.optional:
                allowed += f" and may be {','.join(self.optional)}"
            raise self.fault(allowed, row)

    def check(
        self, batch: RowBatch, column: str, is_right: NDArray[np.bool_], allowed: str
    ) -> None:
        """Each value is right.

        Raises:
            SettingsError: one is not; names its row, and what is allowed.
        """
        if not is_right.all():
            offset = int(np.argmin(is_right))
            text = repr(batch.value(column, offset))[:_MAX_QUOTED]
            raise self.fault(f"{column} {text}: {allowed}", int(batch.rows[offset]))

    def whole(self, batch: RowBatch, column: str, most: int) -> NDArray[np.int32]:
        """Whole numbers from 0 to ``most``, which is less than 2^31.

        Raises:
            SettingsError: another value.
        """
        values = batch.whole(column)
        is_right = (values >= 0) & (values <= most)
        self.check(batch, column, is_right, f"a whole number from 0 to {most}")
        return values.astype(np.int32)


# Rows from CSV files.


# A line that has no end would be read as a whole otherwise.
_LONGEST_LINE: Final = 1 << 16
# With more lists at once than these the collector of garbage goes through them again and again.
_ROWS_AT_ONCE: Final = 1 << 12
_MOST_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class CsvBatch:
    """Some lines; each column as its texts."""

    rows: NDArray[np.int64]
    columns: Mapping[str, tuple[str, ...]]

    def whole(self, column: str) -> NDArray[np.int64]:
        """Decimal digits only, nine at most."""
        texts = self.columns[column]
        # Rows that stand together say the same minute again and again.
        known = {text: _whole(text) for text in set(texts)}
        return np.fromiter(map(known.__getitem__, texts), np.int64, len(texts))

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Whatever Python reads as a number."""
        texts = self.columns[column]
        try:
            return np.array(texts, dtype=np.float64)
        except ValueError:
            return np.array([_number(text) for text in texts])

    def texts(self, column: str) -> Sequence[str]:
        """The texts as they are."""
        return self.columns[column]

    def value(self, column: str, offset: int) -> object:
        """A text."""
        return self.columns[column][offset]


def csv_batches(file: TableFile) -> Iterator[CsvBatch]:
    """The rows of a file, many at once; empty lines are none.

    Raises:
        SettingsError: no such file, no text, other columns, a malformed line.
    """
    try:
        with file.path.open(encoding="utf-8-sig", newline="") as text:
            lines = iter(partial(text.readline, _LONGEST_LINE), "")
            yield from _batches(file, csv.reader(lines, strict=True))
    except (OSError, UnicodeDecodeError) as error:
        raise file.fault(str(error)) from error


def write_csv(file: TableFile, batches: Iterable[Columns]) -> None:
    """A file of these columns, some rows at once; floats as exact as those of 32 bits are.

    Raises:
        SettingsError: it cannot be written.
    """
    try:
        with file.path.open("w", encoding="utf-8", newline="") as text:
            text.write(",".join(file.required) + "\n")
            for batch in batches:
                columns = [batch[name] for name in file.required]
                line = ",".join(map(_form, columns)) + "\n"
                text.writelines(map(line.__mod__, zip(*columns, strict=True)))
    except OSError as error:
        raise file.fault(str(error)) from error


# The type of csv.reader has no name at run time.
def _batches(file: TableFile, reader: Any) -> Iterator[CsvBatch]:
    try:
        header: list[str] = next(reader, [])
        file.check_columns(header, 1)
        before = reader.line_num
        while rows := list(islice(reader, _ROWS_AT_ONCE)):
            _check_shape(file, header, rows, before, reader.line_num)
            kept = [row for row in rows if row]
            if kept:
                places = before + 1 + np.flatnonzero([bool(row) for row in rows])
                yield CsvBatch(places, dict(zip(header, zip(*kept, strict=True), strict=True)))
            before = reader.line_num
    except csv.Error as error:
        raise file.fault(str(error), max(reader.line_num, 1)) from error


def _check_shape(
    file: TableFile, header: list[str], rows: list[list[str]], before: int, last: int
) -> None:
    """Each line is a row of as many fields as there are columns, or empty."""
    if last - before != len(rows):
        broken = (i for i, row in enumerate(rows) if any(_has_break(field) for field in row))
        index = next(broken, len(rows) - 1)
        raise file.fault("a line break inside quotes, or a line without end", before + 1 + index)
    if not {len(row) for row in rows} <= {0, len(header)}:
        index = next(i for i, row in enumerate(rows) if len(row) not in (0, len(header)))
        expected = f"{len(header)}: {','.join(header)}"
        raise file.fault(f"{len(rows[index])} fields; expected {expected}", before + 1 + index)


def _has_break(field: str) -> bool:
    return "\n" in field or "\r" in field


def _whole(text: str) -> int:
    is_whole = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_whole else -1


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _form(column: Sequence[object] | NDArray[Any]) -> str:
    is_float = isinstance(column, np.ndarray) and column.dtype.kind == "f"
    return "%.9g" if is_float else "%s"


# Rows from Parquet files, and into them; pyarrow is loaded when one is named.


_MOST_WHOLE: Final = 2.0**53


@dataclass(frozen=True, slots=True)
class ParquetBatch:
    """Some rows; each column as an Arrow array."""

    rows: NDArray[np.int64]
    columns: Mapping[str, Any]

    def whole(self, column: str) -> NDArray[np.int64]:
        """Of a column of integers, or of floats that are whole."""
        values = self.numbers(column)
        is_whole = (values == np.floor(values)) & (abs(values) < _MOST_WHOLE)
        return np.where(is_whole, values, -1).astype(np.int64)

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Of a column of integers or floats."""
        values = self._plain(column)
        if values.dtype.kind not in "iuf":
            return np.full(len(self.rows), np.nan)
        return values.astype(np.float64)

    def texts(self, column: str) -> Sequence[str]:
        """Of a column of strings; another value as Python writes it."""
        return tuple(map(str, self._plain(column)))

    def value(self, column: str, offset: int) -> object:
        """A Python value; None for a null."""
        return self.columns[column][offset].as_py()

    def _plain(self, column: str) -> NDArray[Any]:
        values: NDArray[Any] = self.columns[column].to_numpy(zero_copy_only=False)
        return values


def parquet_batches(file: TableFile) -> Iterator[ParquetBatch]:
    """The rows of a file, many at once.

    Raises:
        SettingsError: no such file, no Parquet, other columns, more rows than are held, no pyarrow.
    """
    with _pyarrow(file), import_module("pyarrow.parquet").ParquetFile(file.path) as table:
        columns = table.schema_arrow.names
        file.check_columns(columns)
        if table.metadata.num_rows > MOST_CELLS:
            raise file.fault(f"{table.metadata.num_rows} rows; at most {MOST_CELLS}")
        first = 1
        for batch in table.iter_batches(BATCH_ROWS):
            places = np.arange(first, first + batch.num_rows)
            yield ParquetBatch(places, dict(zip(columns, batch.columns, strict=True)))
            first += batch.num_rows


def write_parquet(file: TableFile, batches: Iterable[Columns]) -> None:
    """A file of these columns, some rows at once.

    Raises:
        SettingsError: it cannot be written, or there is no pyarrow.
    """
    with _pyarrow(file) as pyarrow, ExitStack() as open_until_the_end:
        writer = None
        for batch in batches:
            table = pyarrow.table(dict(batch))
            if writer is None:
                writer = open_until_the_end.enter_context(
                    import_module("pyarrow.parquet").ParquetWriter(file.path, table.schema)
                )
            writer.write_table(table)


@contextmanager
def _pyarrow(file: TableFile) -> Iterator[Any]:
    """The library, whose errors become the file's."""
    try:
        pyarrow: Any = import_module("pyarrow")
    except ImportError as error:
        raise file.fault("Parquet needs pyarrow: pip install 'broker-ctl[pipeline]'") from error
    try:
        yield pyarrow
    except (OSError, pyarrow.ArrowException) as error:
        raise file.fault(str(error)) from error
