"""A decision with its outcome, as a row of plain JSON values."""

from collections.abc import Mapping
from typing import Any

from broker_ctl.core.history.journal import JournalEntry


def decision_row(entry: JournalEntry) -> dict[str, Any]:
    """A decision with its outcome."""
    return {
        **entry.decision.to_row(),
        "at_ms": entry.at_ms,
        "epoch": entry.epoch,
        "cycle": entry.cycle,
        "result": entry.outcome.result,
        "outcome": entry.outcome.detail,
        "took_s": entry.outcome.took_s,
    }


def subjects_of(row: Mapping[str, Any]) -> frozenset[str]:
    """The brokers and bundles that a decision is about."""
    keys = ("bundle", "source", "destination", "owner", "subject", "left", "right")
    return frozenset(str(row[key]) for key in keys if key in row)
