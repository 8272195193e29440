import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.context.decisions import DecisionLog, entry_row
from broker_ctl.codec import encode
from broker_ctl.core.cluster.decisions import Assign, Decision, Reason, Skip
from broker_ctl.core.history.rows import JournalEntry, Outcome
from broker_ctl.core.model.names import Bundle

BUNDLE = Bundle.parse("public/default/0x00000000_0x40000000")
ASSIGN = Assign(BUNDLE, "b:8080", Reason.UNOWNED, "its broker is gone")
BALANCED = Skip("cluster", Reason.BELOW_THRESHOLD, "mean 40.0%")
SKIPPED = Outcome("skipped")


def entry(decision: Decision, outcome: Outcome = SKIPPED, cycle: int = 1) -> JournalEntry:
    return JournalEntry(1_700_000_000_000, 3, cycle, decision, outcome)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    with caplog.at_level(logging.INFO, logger="broker_ctl.decisions"):
        yield caplog.messages


@pytest.fixture
def journal() -> DecisionLog:
    return DecisionLog(capacity=5)


def test_a_decision_is_one_line_with_its_reason_and_outcome(
    journal: DecisionLog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="broker_ctl.decisions"):
        journal.record(entry(ASSIGN, Outcome("done", took_s=0.254)))
        journal.record(entry(ASSIGN, Outcome("failed", "no answer", 5.0)))
    line = f"epoch 3 cycle 1: assign {BUNDLE} to b:8080: unowned: its broker is gone"
    assert caplog.messages == [
        f"{line} -> done in 0.25 s",
        f"{line} -> failed in 5.00 s: no answer",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_decisions_are_counted_by_kind_reason_and_result(journal: DecisionLog) -> None:
    for _ in range(3):
        journal.record(entry(BALANCED))
    journal.record(entry(ASSIGN, Outcome("done")))
    assert journal.counts() == {
        ("skip", "below_threshold", "skipped"): 3,
        ("assign", "unowned", "done"): 1,
    }


def test_a_skip_that_stands_is_logged_once_per_change(
    journal: DecisionLog, caplog: pytest.LogCaptureFixture
) -> None:
    draining = Skip("b:8080", Reason.DRAINING, "why")
    with caplog.at_level(logging.INFO, logger="broker_ctl.decisions"):
        for cycle, mean in enumerate((40.0, 41.0, 42.0)):
            journal.record(entry(Skip("cluster", Reason.BELOW_THRESHOLD, f"{mean}"), cycle=cycle))
        assert len(caplog.messages) == 1
        journal.record(entry(draining))
        journal.record(entry(draining))
        assert len(caplog.messages) == 2
        # After a decision was carried out, a standing skip is logged again.
        journal.record(entry(ASSIGN, Outcome("done")))
        journal.record(entry(BALANCED))
        assert len(caplog.messages) == 4


def test_the_newest_come_first_and_a_standing_skip_once(journal: DecisionLog) -> None:
    journal.record(entry(BALANCED, cycle=1))
    journal.record(entry(ASSIGN, Outcome("done"), cycle=1))
    journal.record(entry(BALANCED, cycle=2))
    recent = journal.recent(10)
    assert [(e.decision.kind, e.cycle) for e in recent] == [("skip", 2), ("assign", 1)]
    assert len(journal.recent(1)) == 1


@pytest.mark.parametrize("result", ["paused", "dry_run", "held_back"])
def test_a_decision_that_is_held_back_in_each_cycle_is_logged_and_kept_once(
    journal: DecisionLog, caplog: pytest.LogCaptureFixture, result: str
) -> None:
    caplog.set_level(logging.INFO, logger="broker_ctl.decisions")
    journal.record(entry(ASSIGN, Outcome("done")))
    for cycle in range(2, 9):
        journal.record(entry(ASSIGN, Outcome(result), cycle))
        journal.record(entry(BALANCED, cycle=cycle))
    elsewhere = replace(ASSIGN, destination="c:8080")
    journal.record(entry(elsewhere, Outcome(result), 9))
    recent = [(one.decision, one.outcome.result, one.cycle) for one in journal.recent(10)]
    assert recent == [
        (elsewhere, result, 9),
        (BALANCED, "skipped", 8),
        (ASSIGN, result, 8),
        (ASSIGN, "done", 1),
    ]
    assert [line.rpartition("-> ")[2] for line in caplog.messages if "assign" in line] == [
        "done",
        result,
        result,
    ]
    assert journal.counts()["assign", "unowned", result] == 8
    journal.record(entry(ASSIGN, Outcome("done"), 10))
    journal.record(entry(ASSIGN, Outcome(result), 11))
    assert caplog.messages[-1].endswith(f"-> {result}"), (
        "what stands is said again after something is done"
    )


def test_the_ring_is_bounded(journal: DecisionLog) -> None:
    for cycle in range(20):
        journal.record(entry(ASSIGN, Outcome("done"), cycle=cycle))
    assert [e.cycle for e in journal.recent(100)] == [19, 18, 17, 16, 15]


def test_a_row_is_plain_json(journal: DecisionLog) -> None:
    row = entry_row(entry(ASSIGN, Outcome("failed", "no answer", 0.5)))
    assert row["decision"]["bundle"] == str(BUNDLE)
    assert (row["epoch"], row["result"], row["outcome"]) == (3, "failed", "no answer")
    encode(row)
