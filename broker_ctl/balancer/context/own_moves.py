"""Moves driven by one attached process: they end with it, and are never adopted.

The cluster executes what was requested of it. The next leader sees the progress in the owner nodes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from broker_ctl.coordination.replicated.moves import MoveRecord
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import BundleMoving
from broker_ctl.store.records.broker_ctl import MoveNode


class OwnMoves:
    """As `Moves`, in memory.

    Attributes:
        misdirected: number of moves that ended at another broker than planned.
    """

    def __init__(self) -> None:
        self.misdirected = 0
        self._records: dict[str, MoveRecord] = {}

    @property
    def all(self) -> Sequence[MoveRecord]:
        """All moves."""
        return list(self._records.values())

    def of(self, bundle: Bundle) -> MoveRecord | None:
        """The move of a bundle, or of one that overlaps it."""
        for record in self._records.values():
            if record.move.bundle.overlaps(bundle):
                return record
        return None

    def check_idle(self, bundle: Bundle) -> None:
        """Check that neither the bundle nor one that overlaps it is being moved.

        Raises:
            BundleMoving: it is being moved already.
        """
        if (other := self.of(bundle)) is not None:
            raise BundleMoving(f"{bundle}: {other.move.bundle} is being moved already")

    @contextmanager
    def recording_move(self, move: MoveNode) -> Iterator[None]:
        """Record the move for the length of the block.

        Raises:
            BundleMoving: the bundle is being moved already.
        """
        self.check_idle(move.bundle)
        self._records[move.move_id] = MoveRecord(move, 0)
        try:
            yield
        finally:
            del self._records[move.move_id]
