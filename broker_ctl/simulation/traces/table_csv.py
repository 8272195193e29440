"""Rows from CSV files."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.traces.table_file import Columns, TableFile

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
