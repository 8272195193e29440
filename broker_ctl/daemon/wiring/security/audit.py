"""The audit log of this daemon, from the settings."""

from broker_ctl.clock import Clock
from broker_ctl.instruments.audit import AuditInstruments
from broker_ctl.security.audit.log import AuditLog, AuditRules
from broker_ctl.settings.root import Settings


def build_audit_log(settings: Settings, broker_id: str, clock: Clock) -> AuditLog:
    """The audit log; without a file and a syslog server it records nothing."""
    audit = settings.audit
    rules = AuditRules(syslog=audit.syslog_address)
    if audit.file is not None:
        rules = AuditRules(
            audit.file,
            audit.file_max_bytes,
            audit.files_kept,
            audit.syslog_address,
            audit.is_required,
        )
    return AuditLog(rules, broker_id, clock)


def bind_audit_log(instruments: AuditInstruments, audit: AuditLog) -> None:
    """Bind the instruments of the audit log."""
    instruments.written.bind(lambda: audit.written)
    instruments.lost.bind(lambda: audit.lost)
    instruments.queued.bind(lambda: audit.queued)
    instruments.is_failing.bind(lambda: float(audit.is_failing))
