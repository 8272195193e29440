"""Payloads of operators' directives; their round trips are in the test of all records."""

import json

import pytest

from broker_ctl.core.cluster.decisions import Reason, Split
from broker_ctl.core.cluster.directives import MOST_REASON, MOST_WHO, AuditInfo, Drain
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.approval import ApprovalState, Fate
from broker_ctl.errors import CorruptRecord
from broker_ctl.store.records.directives import DrainRecord, PauseRecord, PlanProgress, PlanRecord

ORDER = AuditInfo(1000, "anna", "kernel update")
BUNDLE = Bundle.parse("t/ns/0x00000000_0x40000000")


def test_fields_of_later_releases_are_ignored() -> None:
    fields = json.loads(DrainRecord(Drain(ORDER, 12, 5e8)).encode())
    assert fields == {
        "version": 1,
        "sinceMs": 1000,
        "by": "anna",
        "reason": "kernel update",
        "bundles": 12,
        "throughputBytes": 5e8,
        "endsMs": 0,
        "endsAfterRun": "",
        "rollout": "",
    }
    read = DrainRecord.decode("/p", json.dumps({**fields, "later": [1]}).encode())
    assert read.drain == Drain(ORDER, 12, 5e8)


def test_texts_written_by_hand_are_cut_to_their_bound() -> None:
    row = {"version": 1, "sinceMs": 5, "by": "x" * 9999, "reason": "y" * 9999}
    order = PauseRecord.decode("/p", json.dumps(row).encode()).pause.order
    assert (len(order.who), len(order.why)) == (MOST_WHO, MOST_REASON)


def test_details_of_decisions_are_cut_so_that_many_fit() -> None:
    split = Split(BUNDLE, "a:1", "range_equally_divide", (), Reason.TOPICS, "z" * 9999)
    record = PlanRecord("p", 1, ORDER, (split,))
    (read,) = PlanRecord.decode("/p", record.encode()).decisions
    assert read.detail == "z" * 300


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "obliterate"}, "obliterate"),
        ({"why": "whim"}, "whim"),
        ({"bundle": "nonsense"}, "bundle"),
        ({"boundaries": [True]}, "whole numbers"),
    ],
)
def test_a_corrupt_decision_is_named_with_its_place(
    change: dict[str, object], complaint: str
) -> None:
    split = Split(BUNDLE, "a:1", "range_equally_divide", (5,), Reason.TOPICS, "why")
    row = json.loads(PlanRecord("p", 1, ORDER, (split,)).encode())
    row["decisions"][0].update(change)
    with pytest.raises(CorruptRecord, match=complaint) as met:
        PlanRecord.decode("/p", json.dumps(row).encode())
    assert "/p: decisions[0]." in str(met.value)


@pytest.mark.parametrize("change", [{"fates": "dx"}, {"state": "someday"}])
def test_an_unknown_fate_or_state_is_corrupt(change: dict[str, str]) -> None:
    progress = PlanProgress(ApprovalState.DONE, (Fate.DONE, Fate.FAILED), 5)
    row = {**json.loads(progress.encode()), **change}
    with pytest.raises(CorruptRecord):
        PlanProgress.decode("/p", json.dumps(row).encode())
