"""A quickstart as a user starts it, and the console at the address that it prints."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

# Longer than any module of tests takes on a busy machine.
_SECONDS: Final = "1800"


@dataclass(frozen=True, slots=True)
class Quickstart:
    """Three daemons.

    Attributes:
        url: of the first daemon.
        urls: of all.
        process: of the quickstart.
    """

    url: str
    urls: tuple[str, ...]
    process: subprocess.Popen[str]

    def kill_daemon(self, url: str) -> None:
        """End the daemon at this address as a machine that fails would: SIGKILL."""
        number = self.urls.index(url) + 1
        for child in psutil.Process(self.process.pid).children(recursive=True):
            # One that was killed before is a zombie until the quickstart looks at it.
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word.endswith(f"broker-{number}.conf") for word in child.cmdline()):
                    child.kill()
                    return
        raise LookupError(url)


@contextmanager
def quickstart(directory: Path, *options: str) -> Iterator[Quickstart]:
    """Run one until the end of the block."""
    arguments = ("quickstart", "--headless", "--duration", _SECONDS, "--dir", str(directory))
    program = (sys.executable, "-m", "broker_ctl", *arguments, *options)
    with (
        (directory / "stdout").open("w") as out,
        subprocess.Popen(program, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("console: "):
                    url = line.removeprefix("console: ").strip().removesuffix("/ui/")
                    yield Quickstart(url, tuple(_urls(directory)), process)
                    break
            else:
                raise AssertionError("the quickstart printed no address")
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.stderr.read()


def _urls(directory: Path) -> Iterator[str]:
    for path in sorted(directory.glob("broker-*.conf")):
        for line in path.read_text().splitlines():
            if line.startswith("webServicePort="):
                yield f"http://127.0.0.1:{line.partition('=')[2]}"
