"""A line is judged whole: what core parses is taken in, and nothing else is."""

import json
from typing import Any

import pytest

from broker_ctl.core.history.row_kinds import (
    BUNDLE_BOUNDARIES,
    BUNDLE_LOADS,
    KINDS,
    SESSION_EVENTS,
    parse_line,
)
from broker_ctl.core.history.rows import BoundariesRow, BundleLoadRow, SessionEventRow
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.pipeline.reading.files import file_schema, to_arrow
from broker_ctl.pipeline.reading.judging import judge
from tests.support.pipeline.segment_files import DAY_ONE_MS, line

EVENT = line(SESSION_EVENTS, "bb-2", SessionEventRow("begin", "connected", 1))
RING = line(BUNDLE_BOUNDARIES, "cc-1", BoundariesRow("t/n", (0, 5, 4294967295)))


def loaded(bundle: str, rate: float | None) -> BundleLoadRow:
    count = None if rate is None else 2
    return BundleLoadRow(
        bundle, "broker-1", *(rate,) * 4, *(count,) * 4, usage_ratio=0.5, short_bytes=1.0,
        long_msg_rate=1.0,
    )  # fmt: skip


LOADS = line(BUNDLE_LOADS, "aa-1", loaded("t/n/x", 10.0), loaded("t/n/y", None))
OTHER_TYPE = "a column is of another type"
FAULTY: list[tuple[Any, str]] = [
    ({**EVENT, "kind": "nonsense"}, "no kind of history"),
    ({**EVENT, "format": 99}, "a newer release wrote it"),
    ({**EVENT, "format": 0}, "format below 1"),
    ({**EVENT, "format": True}, "format is missing, or is not integer"),
    ({**EVENT, "at_ms": 5}, "at_ms is not between 2000 and 2100"),
    ({**EVENT, "at_ms": 1.5}, "at_ms is missing, or is not integer"),
    ({**EVENT, "cluster": ""}, "cluster is empty"),
    ({**EVENT, "id": ""}, "id is empty"),
    ({**EVENT, "event": None}, "a column is missing"),
    ({**EVENT, "session_epoch": "one"}, OTHER_TYPE),
    ({**EVENT, "session_epoch": 2**63}, OTHER_TYPE),
    ({**RING, "boundaries": [0, None]}, "a list has a null that must have none"),
    ({**RING, "boundaries": [0, "5"]}, OTHER_TYPE),
    ({**LOADS, "bundle": ["t/n/x", None]}, "a list has a null that must have none"),
    ({**LOADS, "bundle": "t/n/x"}, OTHER_TYPE),
    ({**LOADS, "bundle": ["t/n/x", 5]}, OTHER_TYPE),
    ({**LOADS, "topics": [1]}, "its lists are not equally long"),
    ({**LOADS, "topics": None}, "a list is missing"),
    ({**LOADS, "topics": [1, True]}, OTHER_TYPE),
    ({**LOADS, "topics": [1, 1.5]}, OTHER_TYPE),
    ({**LOADS, "topics": [1, 2**63]}, OTHER_TYPE),
    ({**LOADS, "usage_ratio": [0.5, "1"]}, OTHER_TYPE),
    ({**LOADS, "usage_ratio": [True, 1]}, OTHER_TYPE),
    ([1], "not a JSON object"),
]


@pytest.mark.parametrize(("given", "fault"), FAULTY)
def test_a_fault_is_named_and_core_refuses_the_line_too(given: Any, fault: str) -> None:
    text = json.dumps(given)
    assert judge(text.encode()).fault == fault
    # Core does not look at the range of a time, nor at empty names.
    if isinstance(given, dict) and not any(
        word in fault for word in ("between", "empty", "below 1", "null that must")
    ):
        with pytest.raises((CorruptRecord, NewerVersion)):
            parse_line(json.loads(text))


@pytest.mark.parametrize("text", [b"{", b'{"a":1}{"b":2}', b"\xff", b'{"a":NaN}', b"null"])
def test_what_is_not_a_json_object_is_a_fault(text: bytes) -> None:
    assert judge(text).fault == "not a JSON object"


@pytest.mark.parametrize("given", [EVENT, RING, LOADS])
def test_a_line_becomes_the_rows_that_core_reads(given: dict[str, Any]) -> None:
    judged = judge(json.dumps(given).encode())
    assert judged.fault is None
    kind = KINDS[given["kind"]]
    expected = parse_line(json.loads(json.dumps(given))).rows
    assert judged.rows == len(expected)
    written = to_arrow(kind, file_schema(kind), [judged]).to_pylist()
    names = [column.name for column in kind.columns]
    found = [
        tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in names)
        for row in written
    ]
    assert found == [tuple(row) for row in expected]
    assert {(row["writer"], row["at_ms"], row["epoch"]) for row in written} == {
        ("broker-1", DAY_ONE_MS, 1)
    }


def test_an_integer_that_no_double_equals_is_a_number_anyway() -> None:
    given = {**LOADS, "bytes_in": [2**60 + 1, None]}
    judged = judge(json.dumps(given).encode())
    written = to_arrow(BUNDLE_LOADS, file_schema(BUNDLE_LOADS), [judged])
    assert written.column("bytes_in").to_pylist() == [float(2**60), None]


def test_what_lines_before_it_were_like_excuses_no_line() -> None:
    good = judge(json.dumps(EVENT).encode())
    # Of the same types, and larger than any column holds.
    large = judge(json.dumps({**EVENT, "session_epoch": 2**63}).encode())
    other = judge(json.dumps({**EVENT, "session_epoch": "1"}).encode())
    again = judge(json.dumps(EVENT).encode())
    assert (good.fault, large.fault, other.fault, again.fault) == (
        *(None, OTHER_TYPE, OTHER_TYPE, None),
    )
