"""Reads Pulsar's series from files: saved results of queries.

A file is a table in long form, CSV or Parquet, with the columns metric, timestamp and value, and a
column for each label. A time is in seconds or milliseconds since 1970, or text of ISO 8601.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv as pc_csv  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.importing.series import METRICS, TimeSeries, TimeSpan

# As tools that save results call them.
_METRIC: Final = ("metric", "__name__", "name")
_TIME: Final = ("timestamp", "time", "ts")
_VALUE: Final = ("value",)
_SUFFIXES: Final = (".csv", ".csv.gz", ".parquet")
# In seconds this is the year 5138, in milliseconds 1973.
_FIRST_IN_MS: Final = 100_000_000_000
# A sample counts until the next one, but not longer; so it is in Prometheus.
_STALE_MS: Final = 300_000
_LABELS: Final = ("cluster", "broker", "bundle", "instance", "namespace", "topic")

Sample = tuple[int, float]
_Labelled = tuple[tuple[str, str], ...]


class Snapshot:
    """Files with series; a `series.Recording`.

    Args:
        path: a file, or a directory of such.
        cluster: value of the label ``cluster``; None: series are not selected by it.

    Raises:
        PipelineError: there are no such files, or one of them cannot be read.
    """

    def __init__(self, path: Path, cluster: str | None) -> None:
        self._series: defaultdict[str, defaultdict[_Labelled, list[Sample]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for file in _files(path):
            self._read(file, cluster)
        for by_labels in self._series.values():
            for samples in by_labels.values():
                samples.sort()

    @property
    def ends_ms(self) -> tuple[int, int] | None:
        """First and last time; None: there are no series of Pulsar."""
        found = [
            sample[0]
            for by_labels in self._series.values()
            for samples in by_labels.values()
            for sample in (samples[0], samples[-1])
        ]
        return (min(found), max(found)) if found else None

    async def query(self, metric: str, labels: tuple[str, ...], span: TimeSpan) -> list[TimeSeries]:
        """See `series.Recording`; of each moment the last sample before it."""
        sums: defaultdict[_Labelled, defaultdict[int, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        for labelled, samples in self._series[metric].items():
            known = dict(labelled)
            if not all(known.get(label) for label in labels):
                continue
            into = sums[tuple((label, known[label]) for label in labels)]
            for at_ms, value in _at_moments(samples, span):
                into[at_ms] += value
        return [TimeSeries(dict(key), sorted(values.items())) for key, values in sums.items()]

    def _read(self, file: Path, cluster: str | None) -> None:
        try:
            rows = _table_of(file)
            metric, time, value = (_column(rows, names) for names in (_METRIC, _TIME, _VALUE))
            labels = [name for name in _LABELS if name in rows.column_names]
            columns = [rows.column(name).to_pylist() for name in (metric, time, value, *labels)]
            for name, at, number, *values in zip(*columns, strict=True):
                if name not in METRICS or number is None:
                    continue
                known = {
                    label: str(each) for label, each in zip(labels, values, strict=True) if each
                }
                if cluster is not None and known.get("cluster") != cluster:
                    continue
                sample = float(number)
                # A rate that is not a number, or below 0, is none.
                if 0 <= sample < math.inf:
                    self._series[name][tuple(sorted(known.items()))].append((_ms_of(at), sample))
        except (OSError, pa.ArrowException, TypeError, ValueError) as error:
            raise PipelineError(f"{file}: {error}") from error


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    named = [each for each in found if each.is_file() and each.name.endswith(_SUFFIXES)]
    if not named:
        raise PipelineError(f"{path}: no file with series: {', '.join(_SUFFIXES)}")
    return named


def _table_of(file: Path) -> Any:
    return pq.read_table(file) if file.suffix == ".parquet" else pc_csv.read_csv(file)


def _column(rows: Any, names: tuple[str, ...]) -> str:
    for name in names:
        if name in rows.column_names:
            return name
    there = ", ".join(rows.column_names)
    raise ValueError(f"no column {' or '.join(names)}; there are: {there}")


def _ms_of(at: Any) -> int:
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    if isinstance(at, datetime):
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    number = float(at)
    return round(number if number >= _FIRST_IN_MS else number * 1000)


def _at_moments(samples: list[Sample], span: TimeSpan) -> Iterator[Sample]:
    """The value at each moment of a span that has one."""
    place = 0
    last: Sample | None = None
    for at_ms in range(span.first_ms, span.last_ms + 1, span.step_ms):
        while place < len(samples) and samples[place][0] <= at_ms:
            last = samples[place]
            place += 1
        if last is not None and at_ms - last[0] < _STALE_MS:
            yield at_ms, last[1]
