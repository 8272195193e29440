"""What is logged, and how."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from broker_ctl.settings.schema import Setting


class LogFormat(StrEnum):
    """Form of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Log: what is logged, and how."""

    format: Annotated[
        LogFormat,
        Setting("logFormat", "Format of the log: text, or json with one object per line."),
    ] = LogFormat.TEXT
    level: Annotated[LogLevel, Setting("logLevel", "Minimum severity of logged records.")] = (
        LogLevel.INFO
    )
