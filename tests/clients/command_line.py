"""A client that is a command: each call is one run of it."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.calls import OK, Outcome
from tests.clients.targets import Target

_MOST_S: Final = 60
_STATUS: Final = re.compile(r"code: (\d{3})")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """pulsarctl.

    Attributes:
        calls: a file with a name and the arguments a line.
    """

    version: str
    command: Path
    calls: Path

    def run(self, target: Target) -> dict[str, Outcome]:
        """Make all calls at a cluster; values are text with addresses, and not kept."""
        return {name: self._call(target, arguments) for name, arguments in self._calls_at(target)}

    def _calls_at(self, target: Target) -> Iterator[tuple[str, list[str]]]:
        for line in self.calls.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            name, _, rest = line.partition("|")
            text = rest.replace("CLUSTER", target.cluster).replace("BROKER", target.brokers[0])
            yield name.strip(), text.split()

    def _call(self, target: Target, arguments: list[str]) -> Outcome:
        done = subprocess.run(
            (str(self.command), "--admin-service-url", target.web, *arguments),
            timeout=_MOST_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return Outcome(OK)
        status = _STATUS.search(done.stdout)
        return Outcome("error", int(status[1]) if status else 0, reason=done.stdout[-300:].strip())
