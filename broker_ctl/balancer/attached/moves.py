"""Moves driven by one attached process: they end with it, and are never adopted.

What was asked of the cluster is carried out by the cluster. Whoever leads next sees in the owner
nodes how far it has come.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from broker_ctl.coordination.replicated.moves import MoveRecord
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import BundleMoving
from broker_ctl.store.records.broker_ctl import MoveNode


class OwnMoves:
    """`leader.dependencies.MovesUnderWay`, in memory.

    Attributes:
        astray: how many have ended at another broker than they were meant for.
    """

    def __init__(self) -> None:
        self.misdirected = 0
        self._records: dict[str, MoveRecord] = {}

    @property
    def all(self) -> Sequence[MoveRecord]:
        """Every move."""
        return list(self._records.values())

    def of(self, bundle: Bundle) -> MoveRecord | None:
        """The move of a bundle, or of one that overlaps it."""
        for record in self._records.values():
            if record.move.bundle.overlaps(bundle):
                return record
        return None

    def check_idle(self, bundle: Bundle) -> None:
        """Nothing of it may be moved twice at a time.

        Raises:
            BundleMoving: the bundle is on its way already.
        """
        if (other := self.of(bundle)) is not None:
            raise BundleMoving(f"{bundle}: {other.move.bundle} is on its way already")

    @contextmanager
    def recording_move(self, move: MoveNode) -> Iterator[None]:
        """For the length of the block.

        Raises:
            BundleMoving: the bundle is on its way already.
        """
        self.check_idle(move.bundle)
        self._records[move.move_id] = MoveRecord(move, 0)
        try:
            yield
        finally:
            del self._records[move.move_id]
