"""The programs that make the calls: one for each client, each prints a JSON object a line."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.calls import Outcome
from tests.clients.targets import Target
from tests.support.pulsar.distribution import distribution

_HERE: Final = Path(__file__).parent
_MOST_S: Final = 900


class ClientMissing(Exception):
    """A client cannot be had here; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Program:
    """A built program.

    Attributes:
        version: of the client.
        command: to which the arguments of a target are added.
    """

    version: str
    command: Sequence[str]

    def run(self, target: Target) -> dict[str, Outcome]:
        """Make all calls at a cluster.

        Raises:
            ClientMissing: it failed as a whole.
        """
        done = subprocess.run(
            (*self.command, *target.arguments),
            timeout=_MOST_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        if done.returncode or not rows:
            said = done.stderr.decode(errors="replace")[-2000:]
            raise ClientMissing(f"{self.command[0]} ended with {done.returncode}: {said}")
        return {row["call"]: Outcome.of_row(row) for row in rows}


def _java() -> Program:
    """PulsarAdmin and the Java client of the release that Maven brings for `tests/pulsar`."""
    pulsar = distribution()
    source = _HERE / "java" / "Calls.java"
    command = (str(pulsar.java), "-Xmx256m", "-cp", pulsar.class_path, str(source))
    return Program(pulsar.version, command)


PROGRAMS: Final[Mapping[str, Callable[[], Program]]] = {"java": _java}
