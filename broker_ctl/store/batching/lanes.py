"""The lanes of one class of requests: its reads and its writes."""

from collections.abc import Callable

from broker_ctl.store.batching.entries import ReadEntry, WriteEntry
from broker_ctl.store.batching.lane import LaneDependencies
from broker_ctl.store.batching.reads import Reads
from broker_ctl.store.batching.window import AdaptiveWindow, FixedWindow, Window
from broker_ctl.store.batching.writes import Writes
from broker_ctl.store.request_class import RequestClass


class ClassLanes:
    """Reads and writes of one class on one connection."""

    def __init__(
        self, shared: LaneDependencies, on_leave: Callable[[ReadEntry | WriteEntry], None]
    ) -> None:
        rules = shared.rules

        is_bulk = shared.request_class is RequestClass.BULK
        bound = AdaptiveWindow if is_bulk and rules.follows_round_trip else FixedWindow

        def window() -> Window:
            return bound(rules.max_in_flight, rules.max_operations)

        self.reads = Reads(shared, window(), on_leave)
        self.writes = Writes(shared, window(), on_leave)
        self.reads.lane.neighbour = self.writes.lane
        self.writes.lane.neighbour = self.reads.lane
