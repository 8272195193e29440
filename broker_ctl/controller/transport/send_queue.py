"""Queue of requests to one broker: the newest of each partition, stops kept in order."""

from collections import deque
from dataclasses import dataclass

from broker_ctl.controller.transport.messages import BrokerRequests, FullRequests, Requests
from broker_ctl.core.partitions.instructions import ReplicaStop


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """Requests that go in one instruction, or in several consecutive ones.

    Attributes:
        is_full: it has an update of each replica of the broker, and no stop.
    """

    requests: Requests
    is_full: bool = False

    def stops(self) -> list[ReplicaStop]:
        """Stops in this batch."""
        if self.is_full:
            return []
        return [request for request in self.requests.values() if isinstance(request, ReplicaStop)]


class SendQueue:
    """Batches for a broker; bounded by the number of its replicas and stops."""

    def __init__(self) -> None:
        self._batches: deque[RequestBatch] = deque()
        # Requests of the last batch; None: there is none, or it is full.
        self._last: BrokerRequests | None = None
        self._has_stops = False

    def __bool__(self) -> bool:
        return bool(self._batches)

    def put(self, requests: BrokerRequests) -> None:
        """Add requests; of each partition only the newest is sent."""
        last = self._last
        if last is None or self._restarts_stopped(last, requests):
            last = self._last = {}
            self._batches.append(RequestBatch(last))
            self._has_stops = False
        last.update(requests)
        self._has_stops |= any(isinstance(request, ReplicaStop) for request in requests.values())

    def _restarts_stopped(self, last: BrokerRequests, requests: BrokerRequests) -> bool:
        """Whether a replica with a queued stop gets an update.

        The stop goes first, and by itself: it may be of an earlier topic by that name (C1).
        """
        return self._has_stops and any(
            isinstance(last.get(partition), ReplicaStop) and not isinstance(request, ReplicaStop)
            for partition, request in requests.items()
        )

    def put_full(self, requests: FullRequests) -> None:
        """Replace the queue by an update of every replica of the broker; queued stops are kept."""
        stops = {stop.partition: stop for stop in self.stops()}
        self._batches = deque([RequestBatch(requests, is_full=True)])
        self._last = None
        self._has_stops = False
        if stops:
            self.put({**stops})

    def pop(self) -> RequestBatch | None:
        """Remove and return the next batch; None: the queue is empty."""
        if not self._batches:
            return None
        batch = self._batches.popleft()
        if not self._batches:
            self._last = None
        return batch

    def stops(self) -> list[ReplicaStop]:
        """All queued stops."""
        return [stop for batch in self._batches for stop in batch.stops()]
