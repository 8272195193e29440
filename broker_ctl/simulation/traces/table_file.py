"""Tables in files: what a reader of their rows sees, whatever the format is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from broker_ctl.errors import SettingsError

CSV: Final = ".csv"
PARQUET: Final = ".parquet"
# Rows that are read or written at once.
BATCH_ROWS: Final = 1 << 16
_MAX_QUOTED: Final = 80

# Rows on their way into a file.
Columns = Mapping[str, Sequence[object] | NDArray[Any]]


class Batch(Protocol):
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

    def check(self, batch: Batch, column: str, is_right: NDArray[np.bool_], allowed: str) -> None:
        """Each value is right.

        Raises:
            SettingsError: one is not; names its row, and what is allowed.
        """
        if not is_right.all():
            offset = int(np.argmin(is_right))
            text = repr(batch.value(column, offset))[:_MAX_QUOTED]
            raise self.fault(f"{column} {text}: {allowed}", int(batch.rows[offset]))

    def whole(self, batch: Batch, column: str, most: int) -> NDArray[np.int32]:
        """Whole numbers from 0 to ``most``, which is less than 2^31.

        Raises:
            SettingsError: another value.
        """
        values = batch.whole(column)
        is_right = (values >= 0) & (values <= most)
        self.check(batch, column, is_right, f"a whole number from 0 to {most}")
        return values.astype(np.int32)
