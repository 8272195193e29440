"""The audit log's lines as syslog messages of RFC 5424, sent as datagrams. Functions may block."""

import logging
import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from logging.handlers import SysLogHandler
from typing import Final

_PORT: Final = 514
_APP: Final = "broker-ctl"
_MESSAGE_ID: Final = "audit"


class AuditSyslog:
    """Sends lines to a syslog server.

    A datagram that is lost on its way is not sent again; the sequence numbers of the lines that
    arrived show what is missing.

    Args:
        address: ``host:port``, ``host`` for port 514, or the path of a socket such as /dev/log.
    """

    def __init__(self, address: str) -> None:
        self._address = _parse(address)
        self._handler: _Handler | None = None

    def send(self, lines: Sequence[bytes], at_ms: int) -> None:
        """Send lines, each as one message of the time ``at_ms``.

        Raises:
            OSError: a message cannot be sent.
        """
        if self._handler is None:
            self._handler = _Handler(self._address, SysLogHandler.LOG_AUTHPRIV)
        stamp = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        head = f"1 {stamp} {socket.gethostname() or '-'} {_APP} {os.getpid()} {_MESSAGE_ID} - "
        for line in lines:
            text = head + line.decode().rstrip("\n")
            self._handler.emit(logging.makeLogRecord({"msg": text, "levelname": "INFO"}))

    def close(self) -> None:
        """Close the socket."""
        if self._handler is not None:
            self._handler.close()
            self._handler = None


class _Handler(SysLogHandler):
    """Raises what the standard handler prints to stderr."""

    append_nul = False

    def handleError(self, _: logging.LogRecord) -> None:  # noqa: N802  # the name is logging's
        """Raise the error that is being handled."""
        raise  # noqa: PLE0704  # logging calls this inside its except clause


def _parse(address: str) -> str | tuple[str, int]:
    if address.startswith("/"):
        return address
    host, colon, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if colon else (address, _PORT)
