"""Lines of older releases: what they lack has the default that the column declares."""

from typing import Annotated, Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from broker_ctl.core.history.columns import Doc, Kind, kind
from broker_ctl.pipeline import parsing
from broker_ctl.pipeline.parsing import parse_lines, rows_of
from tests.support.pipeline.segment_files import line


class AloneRow(NamedTuple):
    """As a later release has it."""

    name: Annotated[str, Doc("from the first")]
    weight: Annotated[float, Doc("since the second", since=2, default=2.5)]
    note: Annotated[str | None, Doc("since the second", since=2)]


ALONE = kind("alone", AloneRow, "one row per line", "id", format_=2)
PACKED = kind("packed", AloneRow, "one row per item", "id", format_=2, is_packed=True)


@pytest.mark.parametrize("of", [ALONE, PACKED])
def test_an_old_line_has_the_defaults_of_what_it_lacks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, of: Kind[Any]
) -> None:
    from broker_ctl.codec import encode

    monkeypatch.setattr(parsing, "KINDS", {of.name: of})
    rows = [AloneRow("a", 1.0, None), AloneRow("b", 3.0, "new")]
    new = line(of, "n", *(rows if of.is_packed else rows[1:]))
    old = {**line(of, "o", *(rows if of.is_packed else rows[:1])), "format": 1}
    del old["weight"]
    old.pop("note", None)
    texts = [encode(each).decode() for each in (new, old, {**old, "format": 2, "id": "p"})]
    given = spark.createDataFrame(
        [("f", number, text) for number, text in enumerate(texts)],
        "file string, line long, text string",
    )
    read = parse_lines(given)
    faults = {row["line"]: row["fault"] for row in read.collect()}
    assert faults[0] is faults[1] is None
    # What is new in a format must be there.
    assert faults[2] in {"a column is missing", "a list is missing"}
    found = {
        row["id"]: (row["name"], row["weight"], row["note"]) for row in rows_of(of, read).collect()
    }
    if of.is_packed:
        assert found == {
            "n/0": ("a", 1.0, None),
            "n/1": ("b", 3.0, "new"),
            "o/0": ("a", 2.5, None),
            "o/1": ("b", 2.5, None),
        }
    else:
        assert found == {"n": ("b", 3.0, "new"), "o": ("a", 2.5, None)}
