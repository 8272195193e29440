"""Daemons as child processes, each with its own broker.conf, log and act log."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from broker_ctl.errors import EmbeddedError, HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded import guard
from broker_ctl.lab.embedded.ports import LOOPBACK, port_of, reserve_port

# A bound on what hangs: on a busy machine a start takes many times its usual second.
_READY_S: Final = 120.0
_STOP_S: Final = 15.0
_POLL_S: Final = 0.05
_LAST_LINES: Final = 8
# What is ``broker-ctl`` here, without an installed script.
BROKER_CTL: Final = (sys.executable, "-m", "broker_ctl")


@dataclass(frozen=True, slots=True)
class DaemonFiles:
    """The files of one daemon."""

    configuration: Path
    log: Path
    serve_log: Path


class DaemonProcess:
    """One `broker-ctl run`. Its ports stay reserved, so that they are free at a restart.

    Attributes:
        service_port: port of its broker process, if any.
        lookup_port: its port of the binary protocol.
        command: what is ``broker-ctl`` at the next start.
    """

    def __init__(
        self,
        directory: Path,
        number: int,
        settings: Mapping[str, str],
        command: Sequence[str] = BROKER_CTL,
    ) -> None:
        self._held = ExitStack()
        web = self._held.enter_context(reserve_port())
        native = self._held.enter_context(reserve_port())
        lookups = self._held.enter_context(reserve_port())
        self._port = port_of(web)
        self.service_port, self.lookup_port = port_of(native), port_of(lookups)
        name = f"broker-{number}"
        self.files = DaemonFiles(
            directory / f"{name}.conf",
            directory / f"{name}.log",
            directory / f"{name}.acts",
        )
        self._settings = {
            **settings,
            "webServicePort": str(self._port),
            "brokerServicePort": str(self.service_port),
            "lookupServicePort": str(self.lookup_port),
            "simulatedActLog": str(self.files.serve_log),
        }
        self.command = command
        self._process: asyncio.subprocess.Process | None = None

    @property
    def broker_id(self) -> str:
        """Host and web port."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def url(self) -> str:
        """Its web address."""
        return f"http://{self.broker_id}"

    @property
    def lookup_url(self) -> str:
        """Its address in the binary protocol."""
        return f"pulsar://{LOOPBACK}:{self.lookup_port}"

    @property
    def pid(self) -> int | None:
        """Process id; None if it does not run."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.returncode is None

    @property
    def exit_code(self) -> int | None:
        """Exit code; None before the start and while it runs."""
        return None if self._process is None else self._process.returncode

    async def start(self) -> None:
        """Write the configuration and start the process."""
        lines = [f"{key}={value}\n" for key, value in self._settings.items()]
        self.files.configuration.write_text("".join(lines), encoding="utf-8")
        with self.files.log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                guard.__file__,
                str(os.getpid()),
                *self.command,
                "run",
                "-c",
                str(self.files.configuration),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self._process is not None and self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def wait(self) -> int:
        """Wait for its end; returns the exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop it with SIGTERM, and with SIGKILL after a while."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await self.wait()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.wait()

    async def kill(self) -> None:
        """Kill it, as a crash would."""
        self.signal(signal.SIGKILL)
        await self.wait()

    def release_ports(self) -> None:
        """Release the ports; it will not be started again."""
        self._held.close()

    async def wait_ready(self, http: HttpClient, limit_s: float = _READY_S) -> None:
        """Wait until /readyz answers 200.

        Raises:
            EmbeddedError: it ended, or was not ready in time; quotes the end of its log.
        """
        why = "not asked yet"
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    if not self.is_running:
                        why = f"it ended with exit code {self.exit_code}"
                        break
                    try:
                        reply = await http.request("GET", f"{self.url}/readyz")
                    except HttpError as error:
                        why = str(error)
                    else:
                        if reply.status == 200:
                            return
                        why = reply.body.decode(errors="replace")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            why = f"not within {limit_s:g} s: {why}"
        raise EmbeddedError(f"{self.broker_id} is not ready: {why}\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines of its log."""
        try:
            lines = self.files.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            return str(error)
        return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])


class Daemons:
    """Several daemons of one cluster. A context manager that stops all of them.

    Args:
        of_each: settings of a single daemon, by its number from 1.
    """

    def __init__(
        self,
        directory: Path,
        count: int,
        settings: Mapping[str, str],
        of_each: Callable[[int], Mapping[str, str]] = lambda _: {},
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.all: Sequence[DaemonProcess] = [
            DaemonProcess(directory, number, {**settings, **of_each(number)})
            for number in range(1, count + 1)
        ]

    async def __aenter__(self) -> Self:
        try:
            for daemon in self.all:
                await daemon.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def wait_ready(self, http: HttpClient) -> None:
        """Wait until all of them are ready."""
        for daemon in self.all:
            await daemon.wait_ready(http)

    async def _stop(self) -> None:
        async with asyncio.TaskGroup() as group:
            for daemon in self.all:
                if daemon.is_running:
                    group.create_task(daemon.stop(), name=f"stop {daemon.broker_id}")
        for daemon in self.all:
            daemon.release_ports()
