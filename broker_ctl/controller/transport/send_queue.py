"""What waits for one broker: the newest letter about each partition, in the order that matters."""

from collections import deque
from dataclasses import dataclass, field

from broker_ctl.controller.transport.messages import Lot
from broker_ctl.core.partitions.instructions import ReplicaStop


@dataclass(slots=True)
class RequestBatch:
    """Letters that may go in one instruction, or in several one after another.

    Attributes:
        is_full: it has a letter for every replica of the broker.
    """

    lot: Lot = field(default_factory=dict)
    is_full: bool = False

    def stops(self) -> list[ReplicaStop]:
        """The replicas that are to end."""
        return [letter for letter in self.lot.values() if isinstance(letter, ReplicaStop)]


class SendQueue:
    """A broker's parcels; there are never more letters than it has replicas, and stops."""

    def __init__(self) -> None:
        self._parcels: deque[RequestBatch] = deque()
        self._has_stops = False

    def __bool__(self) -> bool:
        return bool(self._parcels)

    def put(self, lot: Lot) -> None:
        """More letters; of a partition only the newest goes."""
        last = self._parcels[-1] if self._parcels else None
        if last is None or last.is_full or self._revives(last, lot):
            last = RequestBatch()
            self._parcels.append(last)
            self._has_stops = False
        last.lot.update(lot)
        self._has_stops |= any(isinstance(letter, ReplicaStop) for letter in lot.values())

    def _revives(self, last: RequestBatch, lot: Lot) -> bool:
        """Whether a replica is told to live that waits to be ended.

        The end goes first, and by itself: it may be of an earlier topic by that name (C1).
        """
        return self._has_stops and any(
            isinstance(last.lot.get(partition), ReplicaStop) and not isinstance(letter, ReplicaStop)
            for partition, letter in lot.items()
        )

    def put_full(self, lot: Lot) -> None:
        """A letter for every replica of the broker: of what waits only the stops go besides."""
        stops = {stop.partition: stop for stop in self.stops()}
        self._parcels = deque([RequestBatch(lot, is_full=True)])
        self._has_stops = False
        if stops:
            self.put({**stops})

    def take(self) -> RequestBatch | None:
        """What goes next."""
        return self._parcels.popleft() if self._parcels else None

    def stops(self) -> list[ReplicaStop]:
        """All replicas that wait to be ended."""
        return [stop for parcel in self._parcels for stop in parcel.stops()]
