"""Recorded traffic and events in CSV or Parquet files, by the suffix of the name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker_ctl.simulation.model.scenario import Event, Traffic
from broker_ctl.simulation.traces import trace_events, trace_rows
from broker_ctl.simulation.traces.table_csv import csv_batches, write_csv
from broker_ctl.simulation.traces.table_file import CSV, PARQUET, Batch, TableFile
from broker_ctl.simulation.traces.table_parquet import parquet_batches, write_parquet

_MOST_HEADER: Final = 1024


def read_traffic(path: Path) -> Traffic:
    """The traffic of a trace file; ``trace_rows`` has the format.

    Raises:
        SettingsError: no such file, or a malformed one; names file and row.
    """
    file = _trace(path)
    return trace_rows.traffic_of(file, _batches(file))


def is_of_bundles(path: Path) -> bool:
    """Whether a trace is of bundles, by its suffix or first line; others are of topics."""
    if path.suffix.lower() == PARQUET:
        return True
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return "bundle" in file.readline(_MOST_HEADER).strip().split(",")
    except OSError as error:
        raise _trace(path).fault(str(error)) from error


def read_events(path: Path) -> tuple[Event, ...]:
    """The events of an events file; ``trace_events`` has the format.

    Raises:
        SettingsError: no such file, or a malformed one; names file and row.
    """
    file = _of_known_format(TableFile("events", path, trace_events.COLUMNS, trace_events.OPTIONAL))
    return trace_events.events_of(file, _batches(file))


def write_traffic(traffic: Traffic, path: Path) -> None:
    """A trace file that `read_traffic` reads; of the topics it has the numbers only.

    Raises:
        SettingsError: it cannot be written.
    """
    file = _trace(path)
    write = write_csv if file.suffix == CSV else write_parquet
    write(file, trace_rows.changes(traffic))


def _trace(path: Path) -> TableFile:
    return _of_known_format(TableFile("trace", path, trace_rows.COLUMNS))


def _of_known_format(file: TableFile) -> TableFile:
    if file.suffix not in {CSV, PARQUET}:
        raise file.fault(f"a name that ends in {CSV} or {PARQUET}")
    return file


def _batches(file: TableFile) -> Iterator[Batch]:
    return csv_batches(file) if file.suffix == CSV else parquet_batches(file)
