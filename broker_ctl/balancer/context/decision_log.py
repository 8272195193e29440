"""Decisions and their outcomes, as log lines, counters and rows of history.

Docs: load-balancing.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from broker_ctl.core.cluster.decisions import Assign, Skip, Transfer
from broker_ctl.core.history.catalog import DECISIONS
from broker_ctl.core.history.decisions import decision_row
from broker_ctl.core.history.journal import JournalEntry, RowJournal

log = logging.getLogger("broker_ctl.decisions")

_CAPACITY: Final = 1000
# Results of decisions that are not executed.
_HELD_BACK: Final = frozenset({"paused", "dry_run", "held_back"})

# Kind, reason and result: each comes from a closed list, which bounds the number of keys.
CountKey = tuple[str, str, str]


def entry_row(entry: JournalEntry) -> dict[str, Any]:
    """The entry as plain JSON values."""
    return {
        "at_ms": entry.at_ms,
        "epoch": entry.epoch,
        "cycle": entry.cycle,
        "decision": entry.decision.to_row(),
        "result": entry.outcome.result,
        "outcome": entry.outcome.detail,
        "took_s": entry.outcome.took_s,
    }


class DecisionLog:
    """The decisions of the leader, as far as this process has made them.

    A decision that repeats in each cycle (a `Skip`, or one suppressed by a pause or dry run) is
    counted each time, but logged and kept only once until another decision is executed.
    """

    def __init__(self, history: RowJournal | None = None, capacity: int = _CAPACITY) -> None:
        self._history = history
        self._capacity = capacity
        self._entries: OrderedDict[object, JournalEntry] = OrderedDict()
        self._standing: set[tuple[object, ...]] = set()
        self._counts: Counter[CountKey] = Counter()
        self._recorded = 0

    def counts(self) -> Mapping[CountKey, int]:
        """Decisions by kind, reason and result."""
        return dict(self._counts)

    def record(self, entry: JournalEntry) -> None:
        """Write down; never blocks, and never raises."""
        decision, outcome = entry.decision, entry.outcome
        self._recorded += 1
        self._counts[decision.kind, decision.reason.value, outcome.result] += 1
        self._hold(entry)
        if self._is_news(entry):
            level = logging.WARNING if outcome.result == "failed" else logging.INFO
            log.log(level, "%s", self._line(entry))
        if self._history is not None:
            row = decision_row(decision, outcome.result, outcome.detail, outcome.took_s)
            self._history.record_rows(
                DECISIONS, [row], epoch=entry.epoch, cycle=entry.cycle, at_ms=entry.at_ms
            )

    def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""
        return list(islice(reversed(self._entries.values()), limit))

    def _hold(self, entry: JournalEntry) -> None:
        key: object = _standing(entry) or self._recorded
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def _is_news(self, entry: JournalEntry) -> bool:
        standing = _standing(entry)
        if standing is None:
            # A decision was executed: repeated ones are logged again.
            self._standing.clear()
            return True
        if standing in self._standing:
            return False
        if len(self._standing) >= self._capacity:
            self._standing.clear()
        self._standing.add(standing)
        return True

    @staticmethod
    def _line(entry: JournalEntry) -> str:
        outcome = entry.outcome
        head = f"epoch {entry.epoch} cycle {entry.cycle}: {entry.decision.sentence}"
        if isinstance(entry.decision, Skip):
            return head
        took = f" in {outcome.took_s:.2f} s" if outcome.took_s else ""
        why = f": {outcome.detail}" if outcome.detail else ""
        return f"{head} -> {outcome.result}{took}{why}"


def _standing(entry: JournalEntry) -> tuple[object, ...] | None:
    """Key of a decision that repeats in each cycle; None if something was executed."""
    decision, result = entry.decision, entry.outcome.result
    if isinstance(decision, Skip):
        return decision.subject, decision.reason
    if result not in _HELD_BACK:
        return None
    where = decision.destination if isinstance(decision, Assign | Transfer) else None
    return result, decision.kind, decision.bundles, where
