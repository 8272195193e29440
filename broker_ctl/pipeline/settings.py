"""Settings of the pipeline, and the text of its file: `config/pipeline.conf`."""

import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from broker_ctl.errors import SettingsError
from broker_ctl.settings.declarations import Declaration, declared
from broker_ctl.settings.schema import Entry, Problem, Setting
from broker_ctl.settings.sources import line_of, parse
from broker_ctl.settings.values import write

# The formats that the tables of a history may have.


class Format(StrEnum):
    """How the tables of a history are written."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"
    DELTA = "delta"


# Settings of the pipeline, and the text of its file: `config/pipeline.conf`.
#
# ``python -m broker_ctl.pipeline.settings`` writes the file with the defaults. Keys that begin
# with ``spark.`` are Spark's own, and go to it as they are.


SPARK: Final = "spark."
_EXAMPLES: Final = """
# Segments, tables and results may be on any file system that Spark has a client for, such as
# hdfs:///tables or s3a://bucket/tables. Workers write Parquet by pyarrow, which takes credentials
# from their environment.
# spark.jars.packages=org.apache.hadoop:hadoop-aws:3.4.2
# spark.hadoop.fs.s3a.endpoint.region=eu-central-1

# With tablesFormat=iceberg the tables are named CATALOG.NAMESPACE: --tables lake.history. The
# catalog lake in a Hive metastore, with its files on HDFS:
# spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog
# spark.sql.catalog.lake.type=hive
# spark.sql.catalog.lake.uri=thrift://metastore:9083
# spark.sql.catalog.lake.warehouse=hdfs:///lake

# Or behind a REST catalog, with its files on S3:
# spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog
# spark.sql.catalog.lake.type=rest
# spark.sql.catalog.lake.uri=https://catalog:8181
# spark.sql.catalog.lake.warehouse=s3://bucket/lake
# spark.sql.catalog.lake.io-impl=org.apache.iceberg.aws.s3.S3FileIO

# Or on one machine, for several processes:
# spark.jars.packages=org.xerial:sqlite-jdbc:3.50.3.0
# spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog
# spark.sql.catalog.lake.type=jdbc
# spark.sql.catalog.lake.uri=jdbc:sqlite:/data/catalog.db
# spark.sql.catalog.lake.jdbc.schema-version=V1
# spark.sql.catalog.lake.warehouse=/data/lake
"""
_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Settings of the jobs; options override them."""

    master: Annotated[
        str, Setting("sparkMaster", "Spark master: local[*], spark://HOST:PORT or yarn.")
    ] = "local[*]"
    tables_format: Annotated[
        Format,
        Setting(
            "tablesFormat",
            "Format of the tables of a history. Iceberg and Delta need PySpark 4.1, and jars that "
            "Spark gets from Maven Central unless spark.jars names them.",
        ),
    ] = Format.PARQUET
    batch_bytes: Annotated[
        int,
        Setting(
            "ingestBatchBytes",
            "Maximum size on disk of the segments ingested in one batch. Each batch has a fixed "
            "cost of about a second.",
            at_least=1,
        ),
    ] = 256 * 1024 * 1024
    segment_bytes: Annotated[
        int,
        Setting(
            "ingestMaxSegmentBytes",
            "Maximum size of a segment after decompression. A larger one, which no daemon writes "
            "with its default loadHistorySegmentMaxBytes, goes to the table quarantine as a whole.",
            at_least=1,
            at_most=1024 * 1024 * 1024,
        ),
    ] = 128 * 1024 * 1024
    days: Annotated[
        int,
        Setting(
            "profileDays",
            "Number of days from which a typical day or week is built, and in which hot bundles "
            "and forecasts are judged.",
            at_least=1,
        ),
    ] = 7
    hot_bundles: Annotated[
        int, Setting("profileHotBundles", "Number of hot bundles listed per cluster.", at_least=1)
    ] = 20
    unload_window_minutes: Annotated[
        int,
        Setting(
            "profileUnloadWindowMinutes",
            "Time before and after an unload that is compared to measure its effect.",
            at_least=1,
        ),
    ] = 10
    split_percent: Annotated[
        float,
        Setting(
            "profileSplitPercentage",
            "Share of a mean broker's load in any hour of a typical day above which splitting "
            "a bundle is recommended.",
            above=0,
        ),
    ] = 10.0
    merge_percent: Annotated[
        float,
        Setting(
            "profileMergePercentage",
            "Combined share of a mean broker's load in every hour of a typical day below which "
            "merging two adjacent bundles is recommended.",
        ),
    ] = 1.0


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings of a file.

    Attributes:
        spark: Spark's own, by key.
    """

    settings: PipelineSettings = field(default_factory=PipelineSettings)
    spark: Mapping[str, str] = field(default_factory=dict)


DECLARATIONS: Final[Mapping[str, Declaration]] = {
    each.key: each for each in declared({"pipeline": PipelineSettings})
}


def load(path: Path) -> Loaded:
    """The settings of a file.

    Raises:
        SettingsError: it cannot be read, or lines of it are wrong; the error lists all of them.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    entries, problems = parse(text, str(path))
    values: dict[str, Any] = {}
    for entry in entries:
        if entry.key.startswith(SPARK):
            continue
        known = DECLARATIONS.get(entry.key)
        if known is None:
            problems.append(_unknown(entry))
            continue
        try:
            values[known.name] = known.parse(entry.value)
        except ValueError as error:
            problems.append(Problem.of(entry, str(error)))
    if problems:
        raise SettingsError("\n".join(map(str, problems)))
    spark = {entry.key: entry.value for entry in entries if entry.key.startswith(SPARK)}
    return Loaded(replace(PipelineSettings(), **values), spark)


def _unknown(entry: Entry) -> Problem:
    close = get_close_matches(entry.key, DECLARATIONS, n=1)
    meant = f"; is {close[0]} meant?" if close else f"; ours are {', '.join(DECLARATIONS)}"
    return Problem(entry.origin, entry.key, "", f"unknown key{meant}")


def render() -> str:
    """Every key with its default, its sentence, unit and range."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _comment(
        "Settings of broker-ctl pipeline, each with its default; --config names the file. Keys "
        "that begin with spark. are Spark's own, such as spark.driver.memory=4g."
    )
    for each in DECLARATIONS.values():
        yield ""
        yield from _comment(each.setting.sentence)
        terms = (f"in {each.unit}" if each.unit else "", each.kind.allowed)
        yield from _comment("; ".join(term for term in terms if term))
        yield line_of(each.key, write(each.default))
    yield from _EXAMPLES.splitlines()


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    sys.stdout.write(render())
