"""Metrics of the history that this daemon writes; silent where it writes none."""

from broker_ctl.instruments.kinds import Gauge, Total


class HistoryInstruments:
    """History; rows on their way to the disk, and segments on it."""

    def __init__(self) -> None:
        self.rows = Total("broker_ctl_history_rows_total", "Rows of history that were written.")
        self.dropped = Total(
            "broker_ctl_history_dropped_rows_total",
            "Rows of history that found no room in the queue or on the disk.",
        )
        self.removed = Total(
            "broker_ctl_history_removed_segments_total",
            "Segments of history that had to make room for newer ones.",
        )
        self.queued_bytes = Gauge(
            "broker_ctl_history_queued_bytes", "Lines of history that wait to be written."
        )
        self.segments = Gauge(
            "broker_ctl_history_segments", "Complete segments of history of this broker."
        )
        self.size_bytes = Gauge(
            "broker_ctl_history_size_bytes", "What complete segments of this broker take."
        )
