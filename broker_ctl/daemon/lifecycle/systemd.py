"""Notifications to systemd (sd_notify(3)), and stop signals.

The protocol is a datagram to the socket named by NOTIFY_SOCKET (sd_notify(3)); without one nothing
is sent.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Mapping
from typing import Final

log = logging.getLogger(__name__)

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Notifier:
    """Messages to the service manager."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An initial @ means the NUL of an abstract socket.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog_us = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = (
            int(watchdog_us) / 1_000_000 if is_ours and watchdog_us.isdecimal() else 0.0
        )

    def send(self, *lines: str) -> None:
        """One message; failing to send it is not an error."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            log.warning("cannot notify the service manager: %s", error)

    async def keep_watchdog(self) -> None:
        """Report, twice in each watchdog interval, that the event loop still runs."""
        while self.watchdog_s > 0:
            self.send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 2)


class StopSignals:
    """The first SIGTERM or SIGINT stops the daemon, the second one ends the process at once.

    Ending at once does not close the session: it expires after the lease, so that bundles that are
    still served keep their owner until then (docs: session-scope, stopping).
    """

    def __init__(self) -> None:
        self._asked = asyncio.Event()

    def install(self) -> None:
        """Handle the signals in the running loop."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._handle, number)

    def remove(self) -> None:
        """Leave the signals to the default handlers again."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)

    def _handle(self, number: int) -> None:
        if self._asked.is_set():
            log.warning("second stop signal: ending at once; the session is left to expire")
            logging.shutdown()
            os._exit(128 + number)
        self.ask()

    def ask(self) -> None:
        """Stop the daemon, as the first signal does."""
        self._asked.set()

    async def wait(self) -> None:
        """Return once a stop is requested."""
        await self._asked.wait()

    async def wait_or(self, ended: asyncio.Event) -> None:
        """Return once a stop is requested, or once ``ended`` is set."""
        async with asyncio.TaskGroup() as group:
            waits = [
                group.create_task(self.wait(), name="signals"),
                group.create_task(ended.wait(), name="own end"),
            ]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for waiting in waits:
                waiting.cancel()
