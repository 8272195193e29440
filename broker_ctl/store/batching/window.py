"""How much of a class may be in flight: a bound, or a window that follows the round trip.

The window of bulk requests keeps the servers busy without a queue in them that others wait behind:
ZooKeeper answers the requests of a session in their order. As in TCP Vegas it compares the round
trip with the one of an idle path, and keeps the difference, which is time in queues, within bounds.
Vegas takes the shortest round trip for the idle one. Here a batch takes longer the more operations
it has, and on a busy machine every round trip is long without any queue, so the idle round trip and
the time that each operation adds are the line through the recent samples.
Docs: adaptive-concurrency.
"""

from typing import Final, Protocol

# Weight of a sample after each later one: about a hundred samples count.
_MEMORY: Final = 0.99
_FIRST: Final = 128
_FEWEST: Final = 64
# Share of the window that a batch has at least while another is in flight: small batches cost the
# client and the servers more than they gain.
_LEAST_BATCH: Final = 0.25
# Time in queues that is allowed, in idle round trips. With less, servers idle while a reply is on
# its way; with one, the window is the product of bandwidth and delay.
_QUEUED: Final = 2.0
# The window moves by at most this share with a sample, so that one late reply does not close it.
_STEP: Final = 0.05
# Spread of the samples (of their numbers of operations, against the mean) below which they fit any
# line: then the window widens until they differ.
_LEAST_SPREAD: Final = 0.05


class Window(Protocol):
    """Decides how many operations the next batch may have."""

    def room(self, batches: int, operations: int, waiting: int) -> int:
        """Entries that may leave now; 0: none.

        Args:
            batches: in flight.
            operations: entries of those batches.
            waiting: operations of the entries that wait; a transaction has several.
        """
        ...

    def on_reply(self, in_flight: int, took_s: float) -> None:
        """A batch was answered ``took_s`` after it made ``in_flight`` operations."""
        ...


class FixedWindow:
    """A number of batches."""

    def __init__(self, max_batches: int, max_operations: int) -> None:
        self._max_batches = max_batches
        self._max_operations = max_operations

    def room(self, batches: int, operations: int, waiting: int) -> int:
        """See `Window.room`."""
        del operations, waiting
        return self._max_operations if batches < self._max_batches else 0

    def on_reply(self, in_flight: int, took_s: float) -> None:
        """See `Window.on_reply`."""


class AdaptiveWindow:
    """A number of operations.

    Attributes:
        operations: how many may be in flight now.
    """

    def __init__(self, max_batches: int, max_operations: int) -> None:
        self._max_batches = max_batches
        self._most = float(max_batches * max_operations)
        self.operations = min(float(_FIRST), self._most)
        # Sums over the samples, older ones weighing less: 1, operations, seconds, and products.
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def room(self, batches: int, operations: int, waiting: int) -> int:
        """See `Window.room`.

        A batch has half of the window, unless it has all that waits. While callers are still to be
        woken, more will wait soon: with others in flight, a batch is not sent for a few.
        """
        room = int(self.operations) - operations
        if batches >= self._max_batches or room < min(waiting, self.operations / 2):
            return 0
        if batches and waiting < self.operations * _LEAST_BATCH:
            return 0
        return max(room, 0)

    def on_reply(self, in_flight: int, took_s: float) -> None:
        """See `Window.on_reply`."""
        self._n = self._n * _MEMORY + 1.0
        self._x = self._x * _MEMORY + in_flight
        self._y = self._y * _MEMORY + took_s
        self._xx = self._xx * _MEMORY + in_flight * in_flight
        self._xy = self._xy * _MEMORY + in_flight * took_s
        if in_flight >= self.operations / 2:  # otherwise the window holds nothing back
            wanted = min(max(self._wanted(), _FEWEST), self._most)
            step = self.operations * _STEP
            self.operations += min(max(wanted - self.operations, -step), step)

    def _wanted(self) -> float:
        """The window whose time in queues is the allowed one, as the samples have it."""
        mean, mean_s = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - mean * mean
        if spread < (mean * _LEAST_SPREAD) ** 2:
            return self._most
        per_operation_s = (self._xy / self._n - mean * mean_s) / spread
        idle_s = mean_s - per_operation_s * mean
        if per_operation_s <= 0:
            return self._most
        return max(_QUEUED * idle_s / per_operation_s, 0.0)
