"""Lines of older releases: what they lack has the default that the column declares."""

from typing import Annotated, Any, NamedTuple

import pytest

from broker_ctl.codec import encode
from broker_ctl.core.history.columns import Doc, RowKind, kind
from broker_ctl.pipeline.reading.files import file_schema, to_arrow
from broker_ctl.pipeline.reading.judging import judge
from tests.support.pipeline.segment_files import line


class AloneRow(NamedTuple):
    """As a later release has it."""

    name: Annotated[str, Doc("from the first")]
    weight: Annotated[float, Doc("since the second", since=2, default=2.5)]
    note: Annotated[str | None, Doc("since the second", since=2)]


ALONE = kind("alone", AloneRow, "one row per line", "id", format_=2)
PACKED = kind("packed", AloneRow, "one row per item", "id", format_=2, is_packed=True)


@pytest.mark.parametrize("of", [ALONE, PACKED])
def test_an_old_line_has_the_defaults_of_what_it_lacks(of: RowKind[Any]) -> None:
    rows = [AloneRow("a", 1.0, None), AloneRow("b", 3.0, "new")]
    new = line(of, "n", *(rows if of.is_packed else rows[1:]))
    old = {**line(of, "o", *(rows if of.is_packed else rows[:1])), "format": 1}
    del old["weight"]
    old.pop("note", None)
    judged = [
        judge(encode(each), {of.name: of}) for each in (new, old, {**old, "format": 2, "id": "p"})
    ]
    assert [each.fault for each in judged[:2]] == [None, None]
    # What is new in a format must be there.
    assert judged[2].fault in {"a column is missing", "a list is missing"}
    written = to_arrow(of, file_schema(of), judged[:2]).to_pylist()
    found = {row["id"]: (row["name"], row["weight"], row["note"]) for row in written}
    if of.is_packed:
        assert found == {
            "n/0": ("a", 1.0, None),
            "n/1": ("b", 3.0, "new"),
            "o/0": ("a", 2.5, None),
            "o/1": ("b", 2.5, None),
        }
    else:
        assert found == {"n": ("b", 3.0, "new"), "o": ("a", 2.5, None)}
