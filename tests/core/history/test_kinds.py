"""Every kind survives the way to JSON and back; lines that do not fit are refused."""

import json
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.history.columns import (
    Column,
    ColumnType,
    Doc,
    RowKind,
    columns_of,
    is_of,
    kind,
)
from broker_ctl.core.history.row_kinds import (
    BUNDLE_LOADS,
    DECISIONS,
    KINDS,
    SESSION_EVENTS,
    STAMP,
    Stamp,
    line_of,
    packed_line_of,
    parse_line,
)
from broker_ctl.core.history.rows import SessionEventRow
from broker_ctl.errors import CorruptRecord, NewerVersion

INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
# Not what JSON cannot carry: surrogates, NaN and infinities.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = {
    ColumnType.TEXT: TEXTS,
    ColumnType.INTEGER: INTEGERS,
    ColumnType.NUMBER: NUMBERS,
    ColumnType.FLAG: st.booleans(),
    ColumnType.TEXTS: st.lists(TEXTS, max_size=3).map(tuple),
    ColumnType.INTEGERS: st.lists(INTEGERS, max_size=3).map(tuple),
}
EVENT_STAMP = Stamp("session_events", 1, "ab-1", "europe", "broker-1:8080", 5, 0, 0)
EVENT = SessionEventRow("begin", "connected", 1)


def values_of(column: Column) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any] = VALUES[column.type]
    return st.none() | values if column.is_optional else values


def rows_of(kind: RowKind[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*map(values_of, kind.columns)).map(lambda values: kind.row(*values))


@given(st.data(), st.sampled_from(sorted(KINDS)))
def test_a_row_of_any_kind_is_read_as_it_was_written(data: st.DataObject, name: str) -> None:
    found = KINDS[name]
    stamp = Stamp(name, 1, "ab-1", "europe", "broker-1:8080", 5, 2, 3)
    rows = tuple(data.draw(st.lists(rows_of(found), min_size=1, max_size=3)))
    if not found.is_packed:
        rows = rows[:1]
    line: Any = (
        packed_line_of(stamp, found.to_columns(rows))
        if found.is_packed
        else line_of(found, stamp, rows[0])
    )
    assert parse_line(json.loads(json.dumps(line))) == (stamp, rows)


def test_names_of_columns_are_distinct() -> None:
    stamped = {column.name for column in STAMP.columns}
    for name, found in KINDS.items():
        own = [column.name for column in found.columns]
        assert name == found.name
        assert len(own) == len(set(own))
        # Both stand in one JSON object.
        assert not stamped & set(own)
        assert set(found.key) <= stamped | set(own)


def event_line(**changed: Any) -> dict[str, Any]:
    return {**line_of(SESSION_EVENTS, EVENT_STAMP, EVENT), **changed}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (event_line(event=None), "session_events: event is None, not text"),
        (event_line(event=1), "session_events: event is 1, not text"),
        (event_line(session_epoch=1.5), "session_epoch is 1.5, not integer"),
        (event_line(session_epoch=True), "session_epoch is True, not integer"),
        (event_line(session_epoch=2**63), "not integer"),
        (event_line(at_ms="now"), "stamp: at_ms is 'now', not integer"),
        (event_line(kind="weather"), "'weather' is not a kind of history"),
        (event_line(id=None), "stamp: id is None, not text"),
        ({}, "stamp: kind is None, not text"),
    ],
)
def test_a_line_that_does_not_fit_is_corrupt(line: dict[str, Any], says: str) -> None:
    with pytest.raises(CorruptRecord, match=says):
        parse_line(line)


def test_a_line_of_a_newer_release_is_distinguished_from_a_corrupt_one() -> None:
    with pytest.raises(NewerVersion, match="format 2; this release reads 1"):
        parse_line(event_line(format=2))


def test_columns_that_a_later_release_adds_are_ignored() -> None:
    assert parse_line(event_line(mood="good")) == (EVENT_STAMP, (EVENT,))


@pytest.mark.parametrize(
    "columns",
    [{"bundle": ["a/b/1"]}, {"bundle": ["a/b/1", "a/b/2"]}, {"bundle": "a/b/1"}, {"bundle": None}],
)
def test_columns_of_a_packed_line_must_be_lists_of_one_length(columns: dict[str, Any]) -> None:
    stamp = Stamp("bundle_loads", 1, "ab-1", "europe", "broker-1:8080", 5, 2, 3)
    whole: dict[str, list[Any]] = {column.name: [1] for column in BUNDLE_LOADS.columns}
    whole["owner"] = []
    with pytest.raises(CorruptRecord, match="all equally long"):
        parse_line({**packed_line_of(stamp, whole), **columns})


# Formats.


class OldRow(NamedTuple):
    name: Annotated[str, Doc("whose")]


class NewRow(NamedTuple):
    name: Annotated[str, Doc("whose")]
    heat: Annotated[float, Doc("how hot", "K", since=2, default=273.15)]
    note: Annotated[str | None, Doc("of the observer", since=2)]


OLD = kind("heats", OldRow, "one row per name", "name")
NEW = kind("heats", NewRow, "one row per name", "name", format_=2)


def test_columns_that_an_older_format_lacks_have_their_defaults() -> None:
    assert NEW.parse(OLD.to_row(OldRow("a")), 1) == NewRow("a", 273.15, None)
    assert NEW.parse({"name": "a", "heat": 1, "note": "x"}, 2) == NewRow("a", 1.0, "x")
    rows = [OldRow("a"), OldRow("b")]
    old = {name: list(items) for name, items in OLD.to_columns(rows).items()}
    assert NEW.parse_columns(old, 1) == (NewRow("a", 273.15, None), NewRow("b", 273.15, None))


def test_a_row_without_a_column_of_its_own_format_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="heat is None"):
        NEW.parse({"name": "a"}, 2)


# Declarations.


class Undeclared(NamedTuple):
    name: str


class Unlisted(NamedTuple):
    name: Annotated[bytes, Doc("whose")]


@pytest.mark.parametrize(
    ("row", "says"), [(Undeclared, "it must be Annotated"), (Unlisted, "no column has the type")]
)
def test_a_column_that_is_not_declared_in_full_is_refused(
    row: type[tuple[Any, ...]], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        columns_of(row)


def test_a_column_knows_its_type_and_whether_it_may_be_unknown() -> None:
    columns = {column.name: column for column in DECISIONS.columns}
    assert columns["boundaries"][:3] == ("boundaries", ColumnType.INTEGERS, True)
    assert columns["took_s"][:5] == (
        *("took_s", ColumnType.NUMBER, False),
        *("duration of the execution", "s"),
    )


@pytest.mark.parametrize(
    ("type_", "value", "fits"),
    [
        (ColumnType.NUMBER, 1, True),
        (ColumnType.NUMBER, True, False),
        (ColumnType.FLAG, 1, False),
        (ColumnType.TEXTS, ["a", 1], False),
        (ColumnType.TEXTS, ["a"], True),
        (ColumnType.INTEGERS, [1, True], False),
        (ColumnType.INTEGERS, [1, 2], True),
    ],
)
def test_a_value_is_of_a_type_or_not(type_: ColumnType, value: object, fits: bool) -> None:
    assert is_of(type_, value) is fits
