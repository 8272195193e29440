"""A serve log in memory."""

from collections import deque

from broker_ctl.dataplane.bundles.serve_log import ServeEvent


class MemoryServeLog:
    """The last ``max_events`` serve events of a data plane.

    Attributes:
        events: oldest first; still readable after `close`.
    """

    def __init__(self, max_events: int) -> None:
        self.events: deque[ServeEvent] = deque(maxlen=max_events)

    def record(self, event: ServeEvent) -> None:
        """Add an event; a full log drops its oldest one."""
        self.events.append(event)

    def close(self) -> None:
        """Do nothing: there is no file to close."""
