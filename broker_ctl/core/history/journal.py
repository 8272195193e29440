"""The journal of rows, and the entry of a decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.core.cluster.decisions import Decision
from broker_ctl.core.history.columns import Kind, RowT


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a decision.

    Attributes:
        result: ``done``, ``failed``, ``dry_run``, ``paused``, ``held_back`` (by the cluster's own
            balancer) or ``skipped``.
        detail: the reason, if it was not executed.
        took_s: seconds from the first act to the last.
    """

    result: str
    detail: str = ""
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One decision with its outcome."""

    at_ms: int
    epoch: int
    cycle: int
    decision: Decision
    outcome: Outcome


class RowJournal(Protocol):
    """Records rows of history."""

    def record_rows(
        self,
        kind: Kind[RowT],
        rows: Sequence[RowT],
        *,
        epoch: int = 0,
        cycle: int = 0,
        at_ms: int | None = None,
    ) -> None:
        """Record some hundred rows; never blocks, never raises: rows without room are dropped.

        ``epoch`` and ``cycle`` are 0 outside of a leadership term; ``at_ms`` is now by default.
        """
        ...
