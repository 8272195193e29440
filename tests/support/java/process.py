"""One Java process of a foreign system: its directory, its log, its end."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker_ctl.lab.embedded import guard

_STOP_S: Final = 15.0
_POLL_S: Final = 0.1
_LAST_LINES: Final = 15


class JavaProcess:
    """A process that can be started again, and dies with the thread that started it."""

    def __init__(self, directory: Path, command: Sequence[str], files: Mapping[str, str]) -> None:
        self._directory = directory
        self._command = command
        self._files = files
        self._process: asyncio.subprocess.Process | None = None
        self.log = directory / "log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Write its files and spawn it."""
        assert not self.is_running
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, text in self._files.items():
            (self._directory / name).write_text(text, encoding="utf-8")
        with self.log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
                *self._command,
                cwd=self._directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    async def wait(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._process is not None and self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        await self.wait()

    async def stop(self) -> None:
        """Ask it to end; after a while it is killed."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await self.wait()
        except TimeoutError:
            await self.kill()

    async def wait_until(
        self, is_ready: Callable[[], Awaitable[bool]], deadline_s: float, what: str
    ) -> None:
        """Poll until it is.

        Raises:
            AssertionError: it ended before, or was not ready in time, with its last words.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while not await is_ready():
                    assert self.is_running, f"{what}: it ended\n{self.log_tail()}"
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise AssertionError(f"{what}: not in {deadline_s} s\n{self.log_tail()}") from error

    def log_tail(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])
