"""Rows from Parquet files, and into them; pyarrow is loaded when one is named."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.simulation.model.bounds import MOST_CELLS
from broker_ctl.simulation.traces.table_file import BATCH_ROWS, Columns, TableFile

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
