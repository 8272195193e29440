"""One ZooKeeper server as a child process."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from broker_ctl.embedded import guard
from broker_ctl.embedded.config import (
    DATA,
    LOG4J2,
    LOGGING,
    NO_EXTRAS,
    ZOO_CFG,
    Address,
    Extras,
    zoo_cfg,
)
from broker_ctl.embedded.roles import Role, ask_role
from broker_ctl.errors import EmbeddedError

LOG: Final = "server.log"
SERVING_DEADLINE_S: Final = 60.0
_STOP_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.05
_LAST_WORDS_BYTES: Final = 16_384
_LAST_WORDS_LINES: Final = 6


class Server:
    """A server with a directory of its own, in which it can be restarted.

    Start it from a thread that outlives the server: the kernel ends the server when the thread that
    spawned it ends.

    Attributes:
        extras: what it has besides, from the next start on; Java options stay as they are.
    """

    def __init__(
        self,
        directory: Path,
        address: Address,
        ensemble: Sequence[Address],
        command: Sequence[str],
        *,
        fsync: bool,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._directory = directory
        self._address = address
        self._ensemble = ensemble
        self._command = command
        self._fsync = fsync
        self.extras = extras
        # Set to None before the process is ended on purpose: a process that ends while it is set
        # has died.
        self._process: asyncio.subprocess.Process | None = None
        self._log_start_bytes = 0

    @property
    def id(self) -> int:
        """Its number in the ensemble, from 1."""
        return self._address.id

    @property
    def client_port(self) -> int:
        """The port for clients on the loopback address."""
        return self._address.client_port

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; None when it does not run."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process exists; it may be paused, or not serve yet."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process; `wait_serving` waits until it serves.

        Raises:
            EmbeddedError: it runs already, or its directory cannot be written.
        """
        if self.is_running:
            raise EmbeddedError(f"server {self.id} runs already")
        try:
            self._lay_out()
            with (self._directory / LOG).open("ab") as log:
                self._log_start_bytes = log.seek(0, os.SEEK_END)
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
                    *self._command,
                    cwd=self._directory,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C on the terminal is for the parent, which then stops the servers.
                    start_new_session=True,
                )
        except OSError as error:
            raise EmbeddedError(f"server {self.id} cannot start: {error}") from error

    def _lay_out(self) -> None:
        data = self._directory / DATA
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self.id}\n")
        (self._directory / LOG4J2).write_text(LOGGING)
        for name, text in self.extras.files.items():
            file = self._directory / name
            file.touch(0o600)
            file.write_text(text)
        configuration = zoo_cfg(
            self._address, self._ensemble, fsync=self._fsync, extras=self.extras
        )
        (self._directory / ZOO_CFG).write_text(configuration)

    async def role(self) -> Role | None:
        """Its role as it reports it; None while it does not serve."""
        return await ask_role(self.client_port) if self.is_running else None

    async def is_serving(self) -> bool:
        """Whether it serves clients.

        Raises:
            EmbeddedError: it died.
        """
        self._check_alive()
        serves = await self.role() not in {None, Role.READ_ONLY}
        # It may have died meanwhile, so that another process on its port answered.
        self._check_alive()
        return serves

    async def wait_serving(self, deadline_s: float = SERVING_DEADLINE_S) -> None:
        """Wait until it serves clients.

        Raises:
            EmbeddedError: it died, or does not serve by the deadline.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    if await self.is_serving():
                        return
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise self.complaint(f"does not serve within {deadline_s:g} s") from error

    async def wait_death(self) -> EmbeddedError | None:
        """Wait for its death; None if it was ended on purpose, or does not run."""
        process = self._process
        if process is None:
            return None
        await process.wait()
        # `stop` and `kill` clear the process before they send the signal.
        return self._death(process) if self._process is process else None

    async def stop(self) -> None:
        """End it with SIGTERM, and after 5 s with SIGKILL; what it acknowledged is kept."""
        process = self._take_process()
        if process is None:
            return
        try:
            _send(process, signal.SIGTERM)
            _send(process, signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_DEADLINE_S):
                    await process.wait()
        finally:
            _send(process, signal.SIGKILL)
        await process.wait()

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        process = self._take_process()
        if process is not None:
            _send(process, signal.SIGKILL)
            await process.wait()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its sockets stay open and nothing answers."""
        if self._process is not None:
            _send(self._process, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused server."""
        if self._process is not None:
            _send(self._process, signal.SIGCONT)

    async def restart(self, deadline_s: float = SERVING_DEADLINE_S) -> None:
        """Stop it if it runs, start it with the same directory and ports, wait until it serves.

        Raises:
            EmbeddedError: see `start` and `wait_serving`.
        """
        await self.stop()
        await self.start()
        await self.wait_serving(deadline_s)

    def complaint(self, what: str) -> EmbeddedError:
        """An error that names the server and quotes the end of its log."""
        log = self._directory / LOG
        words = "\n  ".join(_last_words(log, self._log_start_bytes)) or "(nothing)"
        return EmbeddedError(f"ZooKeeper server {self.id} {what}; {log} says:\n  {words}")

    def _take_process(self) -> asyncio.subprocess.Process | None:
        process, self._process = self._process, None
        return process

    def _check_alive(self) -> None:
        if self._process is None:
            raise EmbeddedError(f"ZooKeeper server {self.id} does not run")
        if self._process.returncode is not None:
            raise self._death(self._process)

    def _death(self, process: asyncio.subprocess.Process) -> EmbeddedError:
        return self.complaint(f"died ({_describe_exit(process.returncode)})")


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # The process may have ended a moment ago.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)


def _describe_exit(returncode: int | None) -> str:
    if returncode is not None and returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit status {returncode}"


def _last_words(log: Path, start_bytes: int) -> Iterator[str]:
    """The last lines since ``start_bytes``, without the frames of Java's stack traces."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start_bytes, end - _LAST_WORDS_BYTES))
            text = file.read(_LAST_WORDS_BYTES).decode(errors="replace")
    except OSError:
        return
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\t")]
    yield from lines[-_LAST_WORDS_LINES:]
