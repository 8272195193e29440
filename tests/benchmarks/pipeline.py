"""Measure the pipeline: how fast it turns a history into tables and profiles on this machine.

Synthesises a history from the daily scenarios, ingests and profiles it with Spark, and makes the
same profile of the same tables with DuckDB. A quarter of the history is "1x", all of it "4x". It
prints:

rows                    rows of bundle loads, at 4x; the history has other rows besides
ingest_rows_s           rows of all kinds ingested in a second, from segments to tables, at 4x
profile_rows_s          rows of bundle loads profiled in a second, from tables to hourly profiles,
                        median of three, at 4x
profile_duckdb_rows_s   the same, by DuckDB, from the same files
profile_over_duckdb     the one over the other
scaling_1x_4x           time of ingest and profile at 4x over that at 1x, for four times the rows:
                        4.0 is linear
sweep                   seconds of the same replays on one core and on two, and their ratio, see
                        sweep.py
peak_rss_mb             largest memory of all processes together, at 4x
python_rss_mb           largest memory of all Python processes, at 1x and at 4x
java_rss_mb             the same of Java
synth_rows_s            rows of bundle loads synthesised in a second

A first run on one segment, which is not measured, warms Java up. Progress is written to stderr. The
default of ten million rows takes some minutes and some gigabytes of temporary files, --quick a
third of both. The benchmark fails if it is not done after --minutes.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

_ROWS: Final = 10_000_000
_QUICK_ROWS: Final = 2_500_000
_PROFILES: Final = 3
# On a busy machine; on a quiet one with two cores it takes a third of it.
_MINUTES: Final = 30.0
_SAMPLE_S: Final = 0.2
_MIB: Final = 1024 * 1024
_DUCKDB: Final = """
COPY (
    WITH loads AS (
        SELECT *, at_ms // 3600000 AS hour
        FROM read_parquet('{tables}/bundle_loads/**/*.parquet', hive_partitioning = true)
        WHERE bytes_in IS NOT NULL
    ), cycles AS (
        SELECT cluster, hour, count(*) AS cycles
        FROM (SELECT DISTINCT cluster, hour, epoch, cycle FROM loads) GROUP BY ALL
    ), sums AS (
        SELECT cluster, bundle, hour, sum(bytes_in + bytes_out) AS bytes_s,
               sum(msg_rate_in + msg_rate_out) AS msg_rate, sum(usage_ratio) AS usage_ratio
        FROM loads GROUP BY ALL
    ), hours AS (
        SELECT cluster, bundle, hour, bytes_s / cycles AS bytes_s, msg_rate / cycles AS msg_rate,
               usage_ratio / cycles AS usage_ratio
        FROM sums JOIN cycles USING (cluster, hour)
    ), newest AS (SELECT cluster, max(hour // 24) AS day FROM hours GROUP BY ALL)
    SELECT cluster, bundle, hour % 24 AS hour, count(*) AS days, median(msg_rate) AS msg_rate,
           median(bytes_s) AS bytes_s, median(usage_ratio) AS usage_ratio
    FROM hours JOIN newest USING (cluster) WHERE hour // 24 > day - 7 GROUP BY ALL
) TO '{out}' (FORMAT parquet)
"""


class _Turn(NamedTuple):
    rows: int
    bundle_rows: int
    ingest_s: float
    profile_s: float
    peak: "_Peak"


class _Peak:
    """The most memory that this process and all below it had at once.

    Attributes:
        total_mb, python_mb, java_mb: of all; of those that run Python; of those that run Java.
    """

    def __init__(self) -> None:
        import psutil

        self._me = psutil.Process()
        self._is_over = threading.Event()
        self.total_mb = self.python_mb = self.java_mb = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_SAMPLE_S):
            java, python = self._sizes_mb()
            self.java_mb = max(self.java_mb, java)
            self.python_mb = max(self.python_mb, python)
            self.total_mb = max(self.total_mb, java + python)

    def _sizes_mb(self) -> tuple[int, int]:
        import psutil

        java, python = 0, self._me.memory_info().rss
        for process in self._me.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                # Java starts small programs now and then. Until such a child is a program of its
                # own it has the name of a thread, and all of Java's memory, a second time.
                name, size = process.name(), process.memory_info().rss
                if name.startswith("java"):
                    java += size
                elif name.startswith("python"):
                    python += size
        return java // _MIB, python // _MIB


@contextmanager
def _bounded(spark: Any, minutes: float) -> Iterator[None]:
    """Spark is stopped in the block when the minutes are over."""
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        spark.stop()

    timer = threading.Timer(minutes * 60, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if is_late.is_set():
            sys.exit(f"not done after {minutes:g} minutes: choose fewer --rows or more --minutes")


def measure(spark: Any, directory: Path, rows: int, hours: int) -> dict[str, Any]:
    """Synthesise, take in, profile; see the module."""
    history = directory / "history"
    history.mkdir()
    _report_progress(f"synthesising {rows:,} rows")
    began_s = time.perf_counter()
    written = _synthesised(spark, history, rows, hours)
    synth_s = time.perf_counter() - began_s
    segments = sorted(history.iterdir())
    _turn(spark, directory / "warm", segments[:1])
    # Every fourth: the clusters are not all alike.
    once = _turn(spark, directory / "once", segments[::4])
    whole = _turn(spark, directory / "whole", segments)
    _report_progress("DuckDB profiles the same")
    tables, out = directory / "whole" / "tables", directory / "profile.parquet"
    duckdb_s = median(_duckdb_s(tables, out) for _ in range(_PROFILES))
    by_row = [(turn.ingest_s + turn.profile_s) / turn.rows for turn in (once, whole)]
    return {
        "rows": whole.bundle_rows,
        "ingest_rows_s": round(whole.rows / whole.ingest_s),
        "profile_rows_s": round(whole.bundle_rows / whole.profile_s),
        "profile_duckdb_rows_s": round(whole.bundle_rows / duckdb_s),
        "profile_over_duckdb": round(duckdb_s / whole.profile_s, 3),
        "scaling_1x_4x": round(4 * by_row[1] / by_row[0], 2),
        "peak_rss_mb": whole.peak.total_mb,
        "python_rss_mb": [once.peak.python_mb, whole.peak.python_mb],
        "java_rss_mb": [once.peak.java_mb, whole.peak.java_mb],
        "synth_rows_s": round(written / synth_s),
    }


def _report_progress(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def _synthesised(spark: Any, history: Path, rows: int, hours: int) -> int:
    from broker_ctl.pipeline.synthesis.shards import Extent, shards_of, synthesise
    from broker_ctl.simulation.scenarios import NAMES, is_daily

    names = [name for name in NAMES if is_daily(name)]
    shards = shards_of(Extent(names, rows, hours), 1_767_571_200_000, history)
    return sum(each.bundle_rows for each in synthesise(spark, shards))


def _turn(spark: Any, directory: Path, segments: list[Path]) -> _Turn:
    """These segments, from the beginning."""
    from broker_ctl.pipeline.ingest import IngestRules, ingest
    from broker_ctl.pipeline.profile import ProfileJobRules, profile, select_results
    from broker_ctl.pipeline.settings import PipelineSettings
    from broker_ctl.pipeline.tables import HISTORY, BatchRow
    from broker_ctl.pipeline.warehouse import open_warehouse

    some, tables, profiles = (directory / name for name in ("history", "tables", "profiles"))
    some.mkdir(parents=True)
    for segment in segments:
        os.link(segment, some / segment.name)
    defaults = PipelineSettings()
    rules = ProfileJobRules(defaults.days, 20, 10, 0.1, 0.01)
    batches: list[BatchRow] = []
    peak = _Peak()

    def on_batch(batch: BatchRow) -> None:
        batches.append(batch)
        _report_progress(
            f"{directory.name}: {sum(each.rows for each in batches):,} rows are taken in"
        )

    with peak.watched():
        began_s = time.perf_counter()
        ingest(spark, str(some), str(tables), IngestRules(defaults.batch_bytes), on_batch)
        ingest_s = time.perf_counter() - began_s
        _report_progress(f"{directory.name}: profiles")
        profile_s = []
        for number in range(_PROFILES):
            # Each from nothing: a day that was profiled is not read again.
            target, began_s = str(profiles / str(number)), time.perf_counter()
            made = profile(spark, str(tables), target, select_results(("hour_profiles",)), rules)
            assert [each.name for each in made] == ["bundle_hours", "hour_profiles"]
            profile_s.append(time.perf_counter() - began_s)
    bundle_rows = open_warehouse(spark, str(tables)).read(HISTORY["bundle_loads"]).count()
    rows = sum(batch.rows for batch in batches)
    return _Turn(rows, bundle_rows, ingest_s, median(profile_s), peak)


def _duckdb_s(tables: Path, out: Path) -> float:
    import duckdb

    began_s = time.perf_counter()
    duckdb.sql(_DUCKDB.format(tables=tables, out=out))
    return time.perf_counter() - began_s


def main() -> None:
    """Measure and print."""
    # Run by its path, the script does not find the package that it belongs to.
    root = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, root)
    from broker_ctl.codec import encode, encode_pretty
    from broker_ctl.errors import BrokerCtlError
    from broker_ctl.pipeline.session import session
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.sweep import Extent, sweep

    arguments = _parser().parse_args()

    def measure_all() -> dict[str, Any]:
        with (
            tempfile.TemporaryDirectory(dir=arguments.directory) as directory,
            session(arguments.master, {}, os.environ) as spark,
            _bounded(spark, arguments.minutes),
        ):
            rows = arguments.rows or (_QUICK_ROWS if arguments.quick else _ROWS)
            found = measure(spark, Path(directory), rows, arguments.hours)
        if not arguments.no_sweep:
            _report_progress("replays on one core and on two")
            found["sweep"] = sweep(Extent(replays=8) if arguments.quick else Extent())
        return found

    try:
        found = with_machine_load(measure_all)
    except BrokerCtlError as error:
        sys.exit(str(error))
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument("--rows", type=int, help="rows of bundle loads (10 million)")
    parser.add_argument(
        "--quick", action="store_true", help="2.5 million rows, and half the replays"
    )
    parser.add_argument(
        "--hours", type=int, default=24, help="hours of history of each cluster (24)"
    )
    parser.add_argument("--master", default="local[*]", help="master of Spark (local[*])")
    parser.add_argument("--no-sweep", action="store_true", help="do not measure the replays")
    parser.add_argument(
        "--minutes", type=float, default=_MINUTES, help="limit for all but the replays (30)"
    )
    parser.add_argument("--directory", type=Path, help="where to put the temporary files")
    return parser


if __name__ == "__main__":
    main()
