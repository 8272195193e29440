"""Settings of Spark for tables of Iceberg and Delta on this machine."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from broker_ctl.pipeline.location import PACKAGES, settings_for
from broker_ctl.pipeline.settings import Format
from broker_ctl.pipeline.tables import HISTORY
from broker_ctl.pipeline.warehouse import open_warehouse
from tests.support.pipeline.spark import SMALL

# A catalog that several processes may write to at once, and that needs no server.
_SQLITE: Final = "org.xerial:sqlite-jdbc:3.50.3.0"
OPEN: Final = (Format.ICEBERG, Format.DELTA)


def open_settings(directory: Path) -> dict[str, str]:
    """For both formats; the catalog ``lake`` of Iceberg is in the directory."""
    catalog = "spark.sql.catalog.lake"
    found: Mapping[str, str] = {
        **SMALL,
        # Of what merges read of a table's log.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.jars.packages": ",".join([*PACKAGES.values(), _SQLITE]),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{directory}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"{directory}/lake",
    }
    for form in OPEN:
        found = {**found, **settings_for(form, found)}
    return dict(found)


def tables_in(form: Format, directory: Path, name: str = "tables") -> str:
    """Location of the tables of a history."""
    return f"iceberg:lake.{name}" if form is Format.ICEBERG else f"delta:{directory}/{name}"


def rows_by_line(spark: SparkSession, tables: str) -> Counter[str]:
    """How many rows there are of each line; -1 is a line that has a row twice."""
    found: Counter[str] = Counter()
    for table in HISTORY.values():
        ids = Counter(row["id"] for row in open_warehouse(spark, tables).read(table).collect())
        found.update(each.partition("/")[0] for each in ids)
        found.update({each.partition("/")[0]: -1_000_000 for each in ids if ids[each] > 1})
    return Counter({line: max(count, -1) for line, count in found.items()})
