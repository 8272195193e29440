"""Locations of tables, and what Spark needs for their format."""

import pyspark
import pytest

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.location import PACKAGES, Location, settings_for, write_location
from broker_ctl.pipeline.settings import Format

PACKAGE = "spark.jars.packages"


@pytest.mark.parametrize(
    ("form", "given", "found"),
    [
        (Format.PARQUET, "/data/tables/", Location(Format.PARQUET, "/data/tables")),
        (Format.PARQUET, "s3a://bucket/t", Location(Format.PARQUET, "s3a://bucket/t")),
        (Format.DELTA, "/data/a b", Location(Format.DELTA, "/data/a b")),
        (Format.DELTA, "hdfs:///tables", Location(Format.DELTA, "hdfs:///tables")),
        (Format.ICEBERG, "lake.ops.history", Location(Format.ICEBERG, "lake.ops.history")),
        # The location says it itself.
        (Format.PARQUET, "iceberg:lake.history", Location(Format.ICEBERG, "lake.history")),
    ],
)
def test_a_location_is_its_format_and_its_root(form: Format, given: str, found: Location) -> None:
    text = write_location(form, given)
    assert Location.of(text) == found
    assert Location.of(str(found)) == found


@pytest.mark.parametrize("root", ["tables", "/data/tables", "lake.", "lake.a b", "lake.x;y", ""])
def test_iceberg_wants_a_catalog_and_a_namespace(root: str) -> None:
    with pytest.raises(PipelineError, match=r"CATALOG\.NAMESPACE"):
        Location.of(f"iceberg:{root}")


def test_spark_gets_the_jars_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    assert settings_for(Format.PARQUET, {}) == {}
    found = settings_for(Format.DELTA, {PACKAGE: "a:b:1", "spark.sql.extensions": "mine.Own"})
    assert found[PACKAGE] == f"a:b:1,{PACKAGES[Format.DELTA]}"
    assert found["spark.sql.extensions"] == "mine.Own,io.delta.sql.DeltaSparkSessionExtension"
    assert found["spark.sql.catalog.spark_catalog"].endswith(".DeltaCatalog")
    assert PACKAGE not in settings_for(Format.ICEBERG, {"spark.jars": "/opt/iceberg-spark.jar"})


def test_another_spark_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    with pytest.raises(PipelineError, match=r"iceberg needs PySpark 4\.1, and 4\.3\.0 is"):
        settings_for(Format.ICEBERG, {})
    assert PACKAGE not in settings_for(Format.ICEBERG, {PACKAGE: "org.apache.iceberg:new:9"})
