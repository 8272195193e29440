"""Where the tables of a history are, and in which format.

A location is a directory of Parquet files (``/data/tables``, ``hdfs:///tables``), or begins with
the name of an open format: ``delta:/data/tables`` is a directory, too, and ``iceberg:lake.history``
the namespace ``history`` of the catalog ``lake``, which Spark's settings describe.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

import pyspark

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.filesystem import resolve_location
from broker_ctl.pipeline.settings import Format

# The newest version of Spark that both formats have a release for.
SPARK: Final = "4.1"
PACKAGES: Final[Mapping[Format, str]] = {
    Format.ICEBERG: f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:1.12.0",
    Format.DELTA: f"io.delta:delta-spark_{SPARK}_2.13:4.4.0",
}
_EXTENSIONS: Final = {
    Format.ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    Format.DELTA: "io.delta.sql.DeltaSparkSessionExtension",
}
_NAMESPACE: Final = re.compile(r"\w+(\.\w+)+")
# The text of an error has its causes; a commit that another one has overtaken is known by them.
_CAUSES: Final = "spark.sql.pyspark.jvmStacktrace.enabled"
_DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Where a user may name the jars of a format.
_PACKAGES: Final = "spark.jars.packages"
_JARS: Final = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")


class Location(NamedTuple):
    """Where the tables of a history are.

    Attributes:
        root: a directory; of Iceberg, a catalog and a namespace in it.
    """

    format: Format
    root: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a location.

        Raises:
            PipelineError: it is of Iceberg, and no name of a catalog and a namespace.
        """
        name, _, rest = text.partition(":")
        if name == Format.DELTA:
            return cls(Format.DELTA, resolve_location(rest))
        if name != Format.ICEBERG:
            return cls(Format.PARQUET, resolve_location(text))
        if not _NAMESPACE.fullmatch(rest):
            raise PipelineError(
                f"{rest}: tables of Iceberg are named CATALOG.NAMESPACE, such as lake.history;"
                " spark.sql.catalog.CATALOG and its settings describe the catalog, see"
                " config/pipeline.conf"
            )
        return cls(Format.ICEBERG, rest)

    def __str__(self) -> str:
        """As `of` reads it."""
        return self.root if self.format is Format.PARQUET else f"{self.format}:{self.root}"


def write_location(form: Format, root: str) -> str:
    """The text of a location; one that begins with a format stays as it is."""
    has_format = root.partition(":")[0] in set(Format)
    return root if form is Format.PARQUET or has_format else f"{form}:{root}"


def settings_for(form: Format, given: Mapping[str, str]) -> dict[str, str]:
    """What Spark needs for a format besides what is ``given``.

    Raises:
        PipelineError: there is no release of the format for this Spark, and no jars are named.
    """
    if form is Format.PARQUET:
        return {}
    found = {_CAUSES: "true"}
    if not any(form in given.get(key, "") for key in _JARS):
        others = [each for each in given.get(_PACKAGES, "").split(",") if each]
        found[_PACKAGES] = ",".join([*others, _package(form)])
    others = [each for each in given.get("spark.sql.extensions", "").split(",") if each]
    found["spark.sql.extensions"] = ",".join(dict.fromkeys([*others, _EXTENSIONS[form]]))
    if form is Format.DELTA:
        found["spark.sql.catalog.spark_catalog"] = given.get(
            "spark.sql.catalog.spark_catalog", _DELTA_CATALOG
        )
    return found


def _package(form: Format) -> str:
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version != SPARK:
        raise PipelineError(
            f"{form} needs PySpark {SPARK}, and {pyspark.__version__} is installed: pip install"
            f" 'pyspark~={SPARK}.4'; or name the jars of a release of {form} for Spark {version} by"
            " --conf spark.jars=FILE,..."
        )
    return PACKAGES[form]
