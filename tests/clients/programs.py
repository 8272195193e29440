"""The programs that make the calls: one for each client, each prints a JSON object a line."""

import json
import os
import shutil
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
_BUILD_S: Final = 1_800
_GO_CLIENT: Final = "github.com/apache/pulsar-client-go"


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


def _java(_: Path) -> Program:
    """PulsarAdmin and the Java client of the release that Maven brings for `tests/pulsar`."""
    pulsar = distribution()
    source = _HERE / "java" / "Calls.java"
    command = (str(pulsar.java), "-Xmx256m", "-cp", pulsar.class_path, str(source))
    return Program(pulsar.version, command)


def _go(scratch: Path) -> Program:
    """pulsar-client-go with its admin package, in the versions of ``go/go.mod``."""
    go = shutil.which("go")
    if go is None:
        raise ClientMissing("no go in PATH: the Go client needs it")
    built = scratch / "go-calls"
    _build((go, "build", "-o", str(built), "."), _HERE / "go", {"GOFLAGS": "-mod=readonly"})
    return Program(_required(_HERE / "go" / "go.mod", _GO_CLIENT), (str(built),))


def _required(file: Path, module: str) -> str:
    """The version of a module that a go.mod names."""
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.removeprefix("require ").split()
        if words[:1] == [module] and len(words) > 1:
            return words[1]
    raise ClientMissing(f"{file} does not name {module}")


def _build(command: Sequence[str], directory: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environ},
        timeout=_BUILD_S,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClientMissing(f"{' '.join(command)}: {done.stderr[-2000:]}")


# Takes a directory to build in.
PROGRAMS: Final[Mapping[str, Callable[[Path], Program]]] = {"java": _java, "go": _go}
