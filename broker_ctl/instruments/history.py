"""Metrics of the history of this daemon; 0 without a history."""

from broker_ctl.instruments.kinds import Gauge, Total


class HistoryInstruments:
    """Rows of history on their way to the disk, and segments on it."""

    def __init__(self) -> None:
        self.rows = Total("broker_ctl_history_rows_total", "History rows written.")
        self.dropped = Total(
            "broker_ctl_history_dropped_rows_total",
            "History rows dropped because the queue or the disk was full.",
        )
        self.removed = Total(
            "broker_ctl_history_removed_segments_total",
            "History segments deleted to make room for newer ones.",
        )
        self.queued_bytes = Gauge(
            "broker_ctl_history_queued_bytes",
            "Size of the history rows waiting to be written, bytes.",
        )
        self.segments = Gauge(
            "broker_ctl_history_segments", "Completed history segments of this broker."
        )
        self.size_bytes = Gauge(
            "broker_ctl_history_size_bytes",
            "Total size of this broker's completed history segments, bytes.",
        )
