"""The log, the audit log, and traces."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.addresses import HttpUrl
from broker_ctl.settings.conditions import given
from broker_ctl.settings.schema import Setting


class LogFormat(StrEnum):
    """Format of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Minimum severity of logged records."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Log: format and severity."""

    format: Annotated[
        LogFormat,
        Setting("logFormat", "Format of the log: text, or json with one object per line."),
    ] = LogFormat.TEXT
    level: Annotated[LogLevel, Setting("logLevel", "Minimum severity of logged records.")] = (
        LogLevel.INFO
    )


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Audit log: which file and syslog server have each change and each refused request."""

    file: Annotated[
        Path | None,
        Setting(
            "auditFile",
            "File of the audit log, for this daemon alone, with mode 0600. Empty: none.",
        ),
    ] = None
    file_max_bytes: Annotated[
        int,
        Setting(
            "auditFileMaxBytes",
            "Size at which the audit file is rotated.",
            at_least=65_536,
            used_with=(given("auditFile"),),
        ),
    ] = 100 * 1024 * 1024
    files_kept: Annotated[
        int,
        Setting(
            "auditFilesKept",
            "Number of rotated audit files; older ones are deleted.",
            at_least=0,
            used_with=(given("auditFile"),),
        ),
    ] = 10
    syslog_address: Annotated[
        str,
        Setting(
            "auditSyslogAddress",
            "Syslog server that also receives the audit log, by UDP, as host:port; or the path of "
            "a socket such as /dev/log. Empty: none.",
            matches=r"(?:/[!-~]+|[A-Za-z0-9.-]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5})?",
            allowed="host:port or the path of a socket",
        ),
    ] = ""
    is_required: Annotated[
        bool,
        Setting(
            "auditRequired",
            "Whether a change is made only after it is on the disk, and is refused with 503 if it "
            "cannot be written.",
            used_with=(given("auditFile"),),
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Tracing: where spans go, and of how many requests."""

    endpoint: Annotated[
        HttpUrl | None,
        Setting(
            "openTelemetryTracesEndpoint",
            "URL to which spans are sent as OTLP over HTTP, such as "
            "http://127.0.0.1:4318/v1/traces; needs the extra otel. Empty: nothing is traced.",
            allowed="http://host:port/path or https://host:port/path",
        ),
    ] = None
    request_ratio: Annotated[
        float,
        Setting(
            "openTelemetryTracesRequestRatio",
            "Share of the requests that begin a trace. Decisions of the leader are always "
            "traced, and requests that carry a trace follow it.",
            at_least=0.0,
            at_most=1.0,
            used_with=(given("openTelemetryTracesEndpoint"),),
        ),
    ] = 0.01
