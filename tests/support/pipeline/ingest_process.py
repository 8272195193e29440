"""Ingest as a process of its own, whatever the format of the tables, and what it has written."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker_ctl.pipeline.session import session
from broker_ctl.pipeline.settings import Format
from tests.support.pipeline.duckdb_oracle import answered
from tests.support.pipeline.open_formats import open_settings, rows_by_line, tables_in
from tests.support.pipeline.spark import SMALL

# A segment is a batch.
ONE_BY_ONE = 1


@dataclass(frozen=True, slots=True)
class Ingest:
    """What is taken in, and where it is written.

    Attributes:
        directory: of everything.
        form: of the tables.
    """

    directory: Path
    form: Format

    @property
    def history(self) -> Path:
        """Directory of the segments."""
        return self.directory / "history"

    def start(self, batch_bytes: int = ONE_BY_ONE) -> subprocess.Popen[bytes]:
        """Begin; it prints JSON."""
        is_named = self.form is Format.ICEBERG
        tables = "lake.tables" if is_named else str(self.directory / "tables")
        verb = [sys.executable, "-m", "broker_ctl", "pipeline", "ingest", str(self.history)]
        options = ["--tables", tables, "--config", str(self._config(batch_bytes))]
        words = [*verb, *options, "--output", "json"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _config(self, batch_bytes: int) -> Path:
        settings = {
            "ingestBatchBytes": batch_bytes,
            "sparkMaster": "local[1]",
            "tablesFormat": self.form,
            **SMALL,
        }
        if self.form is not Format.PARQUET:
            settings |= open_settings(self.directory)
        path = self.directory / f"pipeline-{batch_bytes}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def files(self) -> set[Path]:
        """Of the tables, whether they count or not."""
        return {path for name in ("tables", "lake") for path in (self.directory / name).rglob("*")}

    def batches(self) -> int:
        """Files of the table that has them."""
        return sum(path.suffix == ".parquet" and "batches" in path.parts for path in self.files())

    def found(self) -> dict[str, int]:
        """Rows by the id of their line; -1 is a line that has a row twice.

        DuckDB reads Parquet, Spark the tables of the other formats.
        """
        if self.form is Format.PARQUET:
            return _read_files(self.directory / "tables")
        settings = open_settings(self.directory)
        with session("local[2]", settings, os.environ) as spark:
            return dict(rows_by_line(spark, tables_in(self.form, self.directory)))


def _read_files(tables: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for folder in sorted(tables.iterdir()):
        if folder.name in {"batches", "lines", "quarantine", "_checkpoint", "_lock"}:
            continue
        rows = answered(
            f"SELECT split_part(id, '/', 1), count(*), count(DISTINCT id)"
            f" FROM read_parquet('{folder}/**/*.parquet') GROUP BY 1"
        )
        for line_id, count, different in rows:
            found[line_id] = found.get(line_id, 0) + (count if count == different else -1)
    return found


def differences(expected: Mapping[str, int], found: Mapping[str, int]) -> dict[str, Any]:
    """Counts, and the ids of lines that are not as they should be."""
    return {
        "lines": len(expected),
        "rows": sum(expected.values()),
        "lost": sorted(set(expected) - set(found)),
        "unknown": sorted(set(found) - set(expected)),
        "wrong": sorted(each for each in found if found[each] != expected.get(each)),
    }
