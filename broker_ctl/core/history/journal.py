"""Where rows go: what whoever has some may ask of whoever writes them."""

from collections.abc import Sequence
from typing import Protocol

from broker_ctl.core.history.columns import Kind, RowT


class RowJournal(Protocol):
    """Writes rows down."""

    def record_rows(
        self,
        kind: Kind[RowT],
        rows: Sequence[RowT],
        *,
        epoch: int = 0,
        cycle: int = 0,
        at_ms: int | None = None,
    ) -> None:
        """Write some hundreds down; never waits, and never raises: what has no room is dropped.

        ``epoch`` and ``cycle`` are 0 outside of a leading; ``at_ms`` is now unless it is said.
        """
        ...
