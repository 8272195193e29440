"""Files and directories on any file system that Spark can access, through Hadoop's client."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from broker_ctl.errors import PipelineError

# Locks of tables on this machine: one writer at a time, or one commit at a time.


# Names with an underscore in front are not part of a table.
_LOCK: Final = "_lock"


@contextmanager
def alone(directory: Path | None) -> Iterator[None]:
    """Lock the tables: another writer would delete incomplete batches of this one.

    Args:
        directory: of the tables; None: they are not on this machine, and there is no lock.

    Raises:
        PipelineError: another one writes there, or the directory is not writable.
    """
    with _locked(directory, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def taking_turns(directory: Path | None) -> Iterator[None]:
    """As `alone`, but waits until the others are through."""
    with _locked(directory, fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(directory: Path | None, how: int) -> Iterator[None]:
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("ab")
    except OSError as error:
        raise PipelineError(f"{directory}: {error.strerror}") from error
    with lock:
        try:
            # The kernel releases the lock when the process ends, even by SIGKILL.
            fcntl.flock(lock, how)
        except BlockingIOError as error:
            raise PipelineError(f"{directory}: another ingest or merge writes there") from error
        except OSError as error:
            raise PipelineError(f"{directory / _LOCK}: {error.strerror}") from error
        yield


# File operations on any file system that Spark can access, through Hadoop's client.


_GLOB: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\[]{}*?"})


def resolve_location(text: str) -> str:
    """Path for Spark: with its scheme, or absolute on this machine."""
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


def literal(path: str) -> str:
    """Escape a path for a reader that interprets glob patterns."""
    return path.translate(_GLOB)


def path_exists(spark: SparkSession, path: str) -> bool:
    """Whether a file or a directory exists."""
    files, wanted = _open_filesystem(spark, path)
    return bool(files.exists(wanted))


def glob_files(spark: SparkSession, root: str, pattern: str) -> Iterator[str]:
    """Files below a directory that match a pattern such as ``dt=*/batch=*``."""
    files, wanted = _open_filesystem(spark, f"{literal(root)}/{pattern}")
    for status in files.globStatus(wanted) or ():
        yield str(status.getPath().toString())


def delete(spark: SparkSession, path: str) -> None:
    """Delete a file, or a directory with its content."""
    files, wanted = _open_filesystem(spark, path)
    files.delete(wanted, True)  # noqa: FBT003  Hadoop's "recursive"


def local_path(spark: SparkSession, path: str) -> Path | None:
    """The path on this machine; None: on a file system that only Spark can access."""
    files, wanted = _open_filesystem(spark, path)
    place = files.makeQualified(wanted).toUri()
    return Path(place.getPath()) if place.getScheme() == "file" else None


def _open_filesystem(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  there is no other way to Hadoop's client
    wanted = jvm.org.apache.hadoop.fs.Path(path)
    jsc: Any = spark.sparkContext._jsc  # noqa: SLF001
    return wanted.getFileSystem(jsc.hadoopConfiguration()), wanted
