"""Reads the segments of a history, as a stream of files, and their lines.

The stream is of files, not of lines: Spark's checkpoint remembers which files belong to which
batch, and a batch is read as a whole. So an unreadable file can be named, and each line has its
number.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_ctl.pipeline.filesystem import literal

# Names as the daemon writes them; an uncompressed segment is read, too.
_PATTERN: Final = "*.{ndjson,ndjson.gz}"
_LISTED: Final = "path string, modificationTime timestamp, length long, content binary"
# Daemons write a few hundred rows into a line, which is far shorter.
MAX_LINE_CHARS: Final = 16 * 1024 * 1024
# Spark leaves out what is a week older than the newest file: a broker may have been away longer.
_MAX_AGE: Final = "36500d"


def segments(spark: SparkSession, directory: str, batch_bytes: int) -> DataFrame:
    """The stream of complete segments below a directory: path, length, and file, its URI.

    Args:
        spark: the session.
        directory: daemons may share it, or have one each in it.
        batch_bytes: of files in a batch, as they are; the last file may go beyond.
    """
    return (
        spark.readStream.format("binaryFile")
        .schema(_LISTED)
        .option("pathGlobFilter", _PATTERN)
        .option("recursiveFileLookup", "true")
        .option("maxBytesPerTrigger", batch_bytes)
        .option("maxFileAge", _MAX_AGE)
        # Ignore files that are deleted meanwhile, because the daemon frees disk space.
        .option("ignoreMissingFiles", "true")
        .load(directory)
        .select("path", "length", F.col("_metadata.file_path").alias("file"))
    )


def lines(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """The lines of some segments: file, its URI; line, from 1; text, null if it is too long.

    Each file is read as a whole: the caller bounds its size after decompression. A file that cannot
    be read to its end yields no rows. Every other file yields at least one.
    """
    literals = [literal(path) for path in paths]
    if not literals:
        return spark.createDataFrame([], "file string, line long, text string")
    reader = spark.read.option("ignoreCorruptFiles", "true").option("ignoreMissingFiles", "true")
    whole = reader.text(literals, wholetext=True)
    numbered = whole.select(
        F.col("_metadata.file_path").alias("file"),
        F.posexplode(F.split("value", "\n")).alias("place", "text"),
    )
    # Behind the last line there is nothing.
    is_line = (F.col("text") != "") | (F.col("place") == 0)
    bounded = F.when(F.length("text") <= MAX_LINE_CHARS, F.col("text")).alias("text")
    return numbered.where(is_line).select(
        "file", (F.col("place") + 1).cast("long").alias("line"), bounded
    )
