"""File operations on any file system that Spark can access, through Hadoop's client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

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
