"""The log: format and severity."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

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
