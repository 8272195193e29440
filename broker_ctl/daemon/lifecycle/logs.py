"""Logs on stderr, one line per record: text for people or JSON for machines."""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

from broker_ctl.codec import encode
from broker_ctl.core.model.printable import escape
from broker_ctl.daemon.lifecycle.log_events import event_of
from broker_ctl.settings.subjects.log import LogFormat, LogSettings


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **event_of(record),
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            row["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        return encode(row).decode()


class TextFormatter(logging.Formatter):
    """Time, level, logger without the package, message.

    Names from outside are part of messages and of errors: their control characters are escaped, and
    lines of a traceback are indented, so that no name can end a line and forge the next.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(short)s: %(message)s")
        self.datefmt = "%Y-%m-%d %H:%M:%S"

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, followed by its traceback if it has one."""
        record.short = record.name.removeprefix("broker_ctl.")
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """The line, without control characters."""
        return escape(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """The traceback, each line indented."""
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  {escape(line)}" for line in lines)


def configure_logs(settings: LogSettings) -> None:
    """Send all logs of the process to stderr."""
    out = logging.StreamHandler(sys.stderr)
    is_json = settings.format is LogFormat.JSON
    out.setFormatter(JsonFormatter() if is_json else TextFormatter())
    logging.basicConfig(handlers=[out], level=settings.level.value.upper(), force=True)
