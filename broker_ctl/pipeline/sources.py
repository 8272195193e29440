"""Reads the segments of a history, as a stream of files.

The stream is of files, not of lines: Spark's checkpoint remembers which files belong to which
batch, and a batch is read as a whole. So an unreadable file can be named, and each line has its
number.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from broker_ctl.pipeline.filesystem import literal

# Names as the daemon writes them; an uncompressed segment is read, too.
_PATTERN: Final = "*.{ndjson,ndjson.gz}"
_LISTED: Final = "path string, modificationTime timestamp, length long, content binary"
# A segment: its URI, its name for who opens it, its size as it is.
_SEGMENT: Final = ("_metadata.file_path AS file", "path", "length")
# Spark leaves out what is a week older than the newest file: a broker may have been away longer.
_MAX_AGE: Final = "36500d"


def segments(spark: SparkSession, directory: str, batch_bytes: int) -> DataFrame:
    """The stream of complete segments below a directory: file, its URI; path; length.

    Workers read the content: it need not go through Java.

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
        .selectExpr(*_SEGMENT)
    )


def list_segments(spark: SparkSession, directory: str) -> DataFrame:
    """The complete segments that there are now, as `segments`, and modified."""
    return (
        spark.read.format("binaryFile")
        .option("pathGlobFilter", _PATTERN)
        .option("recursiveFileLookup", "true")
        .option("ignoreMissingFiles", "true")
        .load(literal(directory))
        .selectExpr(*_SEGMENT, "modificationTime AS modified")
    )
