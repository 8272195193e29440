"""Tables of the pipeline on disk, without Spark, which takes seconds for a few rows."""

from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema

from broker_ctl.pipeline.tables import Table

# It has no types.
arrow: Any = import_module("pyarrow")
parquet: Any = import_module("pyarrow.parquet")
# Of a table in partitions: whatever the rows say of time, they stand in one.
_PARTITION = {"dt": "2026-01-01", "cluster": "east", "batch": "one"}


def write_rows(root: Path, table: Table, *rows: dict[str, Any]) -> None:
    """Rows with some of the table's columns; what is left out is null, whatever the table says."""
    assert all(set(row) <= set(table.schema.names) for row in rows)
    folder = root.joinpath(table.name, *(f"{name}={_PARTITION[name]}" for name in table.partitions))
    folder.mkdir(parents=True)
    fields: Any = to_arrow_schema(table.schema)
    own = [(each.name, each.type) for each in fields if each.name not in table.partitions]
    whole = [{name: row.get(name) for name, _ in own} for row in rows]
    written = arrow.Table.from_pylist(whole, schema=arrow.schema(own))
    parquet.write_table(written, folder / "part-0.parquet")
