"""The Spark session of a job, its errors in one sentence, and rows that it keeps."""

import asyncio
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from broker_ctl.errors import PipelineError
from broker_ctl.java import first_new_enough, installed

# Caches rows that are used several times.


@contextmanager
def caching(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache the rows in memory or on disks of the workers until the block ends.

    Unlike with `DataFrame.persist`, frames that derive from them do not carry the plan of the
    cached rows, which Spark would analyse again for every use.
    """
    kept = frame.localCheckpoint()
    # Its plan is the cached rows; others may cache at the same time.
    jdf: Any = kept._jdf  # noqa: SLF001  Python does not give them
    rows = jdf.queryExecution().logical().rdd()
    try:
        yield kept
    finally:
        rows.unpersist(False)  # noqa: FBT003  Spark's "blocking"


# Translates Spark's errors into one sentence.


# At the end of a traceback of a Python worker, one of ours, which is a sentence; and any other: the
# first line that is not indented.
_OURS: Final = re.compile(r"^broker_ctl\.errors\.\w+: (.*)$", re.MULTILINE)
_RAISED: Final = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)$", re.MULTILINE
)


@contextmanager
def translate_spark_errors(what: str) -> Iterator[None]:
    """Translate errors of Spark within the block into PipelineError.

    Raises:
        PipelineError: ``what`` failed, and why.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{what}: {sentence_of(error)}") from error


def sentence_of(error: Exception) -> str:
    """Its first line, or the exception of a worker."""
    text = str(error)
    # Of a chain the last is what was made of the others.
    if raised := _OURS.findall(text) or _RAISED.findall(text):
        return str(raised[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


# The Spark session, local by default or on a cluster (docs: load-history-sources).
#
# Spark writes much to stderr. A session that this process starts redirects that to a file; if
# Spark fails, the error quotes its last lines.


_NAME: Final = "broker-ctl"
# Settings that every job needs, on every master.
_ALWAYS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Several tasks per core, even of one batch of segments: their times differ.
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    # Recording the call site of each column takes most of the time to build it, and does not help
    # users.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For one machine: Spark listens on loopback only, and a job of a few gigabytes fits.
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # Python does the heavy work. Java's second compiler takes more processor time in a run of
    # minutes than all of Spark's tasks.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
_GONE: Final = (
    "Java has ended, and Spark with it; perhaps the system had no memory left for it: run it again,"
    " with less by --conf spark.driver.memory=1g"
)
_LAST_WORDS_BYTES: Final = 4_096
_LAST_WORDS_LINES: Final = 6


@contextmanager
def session(
    master: str,
    conf: Mapping[str, str],
    environ: MutableMapping[str, str],
    log: Path | None = None,
) -> Iterator[SparkSession]:
    """As `open_session`; it ends with the block, unless this process had one before.

    Raises:
        PipelineError: as `open_session`; or Java has ended within the block.
    """
    active = SparkSession.getActiveSession()
    spark = active or open_session(master, conf, environ, log)
    try:
        yield spark
    except (PipelineError, PySparkException, Py4JError, OSError) as error:
        if _is_gone(spark):
            raise PipelineError(_GONE) from error
        raise
    finally:
        if active is None and not _is_gone(spark):
            spark.stop()


def open_session(
    master: str,
    conf: Mapping[str, str],
    environ: MutableMapping[str, str],
    log: Path | None = None,
) -> SparkSession:
    """A session; this process must have none yet.

    Args:
        master: as Spark has it: ``local[*]``, ``spark://HOST:PORT``, ``yarn``.
        conf: Spark's own settings, which override ours.
        environ: of this process; Spark's launcher reads JAVA_HOME and PYSPARK_PYTHON in it.
        log: file for Spark's stderr; None: discard it.

    Raises:
        PipelineError: no Java that is new enough, or Spark does not start.
    """
    # What it would log is raised, too.
    for name in ("DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # py4j also logs by the root, which would print it where no handler is set.
    logging.getLogger().addHandler(logging.NullHandler())
    is_local = master.startswith("local")
    _find_java(environ)
    if is_local:
        # The workers of a cluster have a Python of their own.
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(_NAME)
    for key, value in {**_ALWAYS, **(_LOCAL if is_local else {}), **conf}.items():
        builder = builder.config(key, value)
    with _capturing_stderr(log) as captured:
        try:
            spark = builder.getOrCreate()
        except (PySparkException, OSError) as error:
            raise PipelineError(
                f"Spark does not start with master {master}: {_last_sentence(captured) or error}"
            ) from error
    _silence_accumulator_server(spark)
    return spark


def _silence_accumulator_server(spark: SparkSession) -> None:
    """Accumulators have a server in this process, which prints a traceback where Java ends first.

    The error is one sentence, which that traceback would interrupt.
    """
    server = spark.sparkContext._accumulatorServer  # noqa: SLF001  # it is nowhere else
    server.handle_error = lambda *_: None  # type: ignore[method-assign]


def _is_gone(spark: SparkSession) -> bool:
    """Whether the JVM has ended; calls to it then fail in many ways."""
    try:
        spark.sparkContext._jvm.System.nanoTime()  # type: ignore[union-attr]  # noqa: SLF001
    except (Py4JError, OSError):
        return True
    return False


def _find_java(environ: MutableMapping[str, str]) -> None:
    """Make Spark use a Java that is new enough, even if an older one is first in PATH."""
    search = asyncio.run(first_new_enough(installed(environ)))
    if search.java is None:
        raise PipelineError(
            f"{search.complaint}: Spark needs one; install it (on Debian: apt install"
            " openjdk-17-jre-headless) or let JAVA_HOME say where it is"
        )
    environ["JAVA_HOME"] = str(search.java.resolve().parents[1])


@contextmanager
def _capturing_stderr(log: Path | None) -> Iterator[IO[bytes]]:
    """Redirect the stderr of processes that the block starts."""
    try:
        # Not deleted with the block: the process keeps writing to it.
        captured = tempfile.TemporaryFile() if log is None else log.open("w+b")  # noqa: SIM115
    except OSError as error:
        raise PipelineError(f"{log}: {error.strerror}") from error
    ours = os.dup(2)
    os.dup2(captured.fileno(), 2)
    try:
        yield captured
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        captured.close()


def _last_sentence(captured: IO[bytes]) -> str:
    size = captured.seek(0, os.SEEK_END)
    captured.seek(max(0, size - _LAST_WORDS_BYTES))
    lines = captured.read().decode(errors="replace").splitlines()
    return "\n  ".join(["", *lines[-_LAST_WORDS_LINES:]]) if lines else ""
