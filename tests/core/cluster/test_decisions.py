import json

import pytest

from broker_ctl.core.cluster.decisions import (
    Assign,
    Decision,
    Merge,
    Reason,
    Skip,
    Split,
    Transfer,
    Unload,
)
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.rules.leader_rules import MIB
from tests.support.clusters.views import BUNDLES

A, B = BUNDLES[:2]
TRANSFER = Transfer(
    A,
    "b1",
    "b2",
    Reason.OVERLOADED,
    "x",
    LoadVector(0.2, 40 * MIB, 400, 3),
    LoadVector(0.9, 180 * MIB, 1800, 9),
    LoadVector(0.1, 20 * MIB, 200, 1),
)
SENTENCES: list[tuple[Decision, str]] = [
    (Assign(A, "b2", Reason.UNOWNED, "x"), f"assign {A} to b2: unowned: x"),
    (Unload(A, "b1", Reason.DRAIN, "x"), f"unload {A} from b1: drain: x"),
    (
        TRANSFER,
        f"transfer {A} (40.0 MiB/s) from b1 (90.0% -> 70.0%) to b2 (10.0% -> 30.0%): overloaded: x",
    ),
    (
        Split(A, "b1", "range_equally_divide", (0x8000000,), Reason.MSG_RATE, "x"),
        f"split {A} of b1 at 0x08000000: msg rate: x",
    ),
    (
        Split(A, "b1", "topic_count_equally_divide", (), Reason.TOPICS, "x"),
        f"split {A} of b1 at topic_count_equally_divide: topics: x",
    ),
    (
        Merge(A, B, "b1", Reason.COLD, "x"),
        f"merge {A} and 0x10000000_0x20000000 of b1: cold: x",
    ),
    (Skip("b1", Reason.SOLE_BUNDLE, "x"), "skip b1: sole bundle: x"),
]


@pytest.mark.parametrize(("decision", "sentence"), SENTENCES)
def test_a_decision_is_one_sentence(decision: Decision, sentence: str) -> None:
    assert decision.sentence == sentence


@pytest.mark.parametrize("decision", [decision for decision, _ in SENTENCES])
def test_a_row_is_plain_json_with_kind_reason_and_sentence(decision: Decision) -> None:
    row = decision.to_row()
    assert json.loads(json.dumps(row)) == row
    assert row["kind"] == type(decision).__name__.lower()
    assert row["reason"] == decision.reason.value
    assert row["sentence"] == decision.sentence
    assert row["detail"] == "x"


def test_the_row_of_a_transfer_has_both_usages_before_and_after() -> None:
    row = TRANSFER.to_row()
    assert (row["bundle"], row["source"], row["destination"]) == (str(A), "b1", "b2")
    assert row["throughput_bytes_per_s"] == 40 * MIB
    loads = [
        row[f"{end}_usage_{when}_ratio"]
        for end in ("source", "destination")
        for when in ("before", "after")
    ]
    assert loads == pytest.approx([0.9, 0.7, 0.1, 0.3])


def test_a_decision_claims_its_bundles() -> None:
    claims = [decision.bundles for decision, _ in SENTENCES]
    assert claims == [(A,)] * 5 + [(A, B), ()]
