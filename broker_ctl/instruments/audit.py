"""Metrics of the audit log of this daemon; 0 without one."""

from broker_ctl.instruments.kinds import Gauge, Total


class AuditInstruments:
    """Events of the audit log on their way to the disk."""

    def __init__(self) -> None:
        self.written = Total("broker_ctl_audit_events_total", "Events of the audit log written.")
        self.lost = Total(
            "broker_ctl_audit_lost_events_total",
            "Events of the audit log lost because its queue was full.",
        )
        self.queued = Gauge(
            "broker_ctl_audit_queued_events", "Events of the audit log waiting to be written."
        )
        self.is_failing = Gauge(
            "broker_ctl_audit_failing", "1 while the audit log cannot be written."
        )
