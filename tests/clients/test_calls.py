"""How outcomes compare, and what is recorded: without a client and without a cluster."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.clients.calls import Outcome, Row, Verdict, compared, counts, reasons_of, table
from tests.clients.programs import PROGRAMS

HERE = Path(__file__).parent
OK = Outcome("ok", value=["a"])
REFUSED = Outcome("NotFoundException", 404, reason="Topic not found")
RECORDED = sorted((HERE / "recorded").glob("*.json"))
REASONS: dict[str, Any] = tomllib.loads((HERE / "reasons.toml").read_text())


@pytest.mark.parametrize(
    ("ours", "why", "verdict"),
    [
        (REFUSED, "", Verdict.EQUAL),
        (Outcome("NotFoundException", 404, reason="in other words"), "", Verdict.EQUAL),
        (Outcome("NotFoundException", 412), "", Verdict.UNEXPLAINED),
        (Outcome("ConflictException", 404), "", Verdict.UNEXPLAINED),
        (OK, "", Verdict.UNEXPLAINED),
        (OK, "it is served here", Verdict.EXPLAINED),
        (REFUSED, "a reason that was needed once", Verdict.STALE),
    ],
)
def test_a_call_is_equal_or_explained_or_neither(ours: Outcome, why: str, verdict: Verdict) -> None:
    assert Row("call", ours, REFUSED, why).verdict is verdict


def test_values_are_compared() -> None:
    assert Row("call", OK, OK, "").verdict is Verdict.EQUAL
    assert Row("call", OK, Outcome("ok", value=["b"]), "").verdict is Verdict.UNEXPLAINED


def test_both_sides_make_the_same_calls_and_a_reason_is_of_one_of_them() -> None:
    rows = compared({"a": OK, "b": OK}, {"a": OK, "b": REFUSED}, {"b": "why"})
    assert counts(rows) == {"equal": 1, "explained": 1, "unexplained": 0, "stale explanation": 0}
    assert [line.split()[0] for line in table(rows).splitlines()] == ["a", "b"]
    with pytest.raises(ValueError, match="one side alone: \\['b'\\]"):
        compared({"a": OK, "b": OK}, {"a": OK}, {})
    with pytest.raises(ValueError, match="no call: \\['c'\\]"):
        compared({"a": OK}, {"a": OK}, {"c": "why"})


def test_each_client_is_recorded() -> None:
    assert set(PROGRAMS) <= {file.stem for file in RECORDED}


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_what_a_real_pulsar_answers_is_recorded(file: Path) -> None:
    recorded: dict[str, Any] = json.loads(file.read_text())
    assert {recorded["pulsar"], recorded["client"]}.isdisjoint({""})
    assert recorded["calls"]
    assert reasons_of(file.stem, REASONS).keys() <= recorded["calls"].keys()
    assert all(Outcome.of_row(row).to_row() == row for row in recorded["calls"].values())
