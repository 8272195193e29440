"""The programs that make the calls: one for each client, each prints a JSON object a line."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.calls import Outcome
from tests.clients.command_line import CommandLine
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


def java_of(version: str) -> Program:
    """PulsarAdmin and the Java client of a release; empty: the one that `tests/pulsar` names."""
    pulsar = distribution(version)
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


def _pulsarctl(scratch: Path) -> CommandLine:
    """The newest release that the Go proxy has, as ``pulsarctl/go.mod`` names it."""
    go = shutil.which("go")
    if go is None:
        raise ClientMissing("no go in PATH: pulsarctl is built with it")
    module, here = "github.com/streamnative/pulsarctl", _HERE / "pulsarctl"
    built = scratch / "pulsarctl-command"
    _build((go, "build", "-o", str(built), module), here, {"GOFLAGS": "-mod=readonly"})
    return CommandLine(_required(here / "go.mod", module), built, here / "calls.txt")


def _rust(scratch: Path) -> Program:
    """The crate ``pulsar``, in the version of ``rust/Cargo.toml``."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise ClientMissing("no cargo in PATH: the Rust client needs it")
    # The crate makes its commands with protoc, which the environment of the tests has.
    protoc = scratch / "protoc"
    protoc.write_text(f'#!/bin/sh\nexec {sys.executable} -m grpc_tools.protoc "$@"\n')
    protoc.chmod(0o700)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or scratch / "rust-target")
    environ = {"PROTOC": str(protoc), "CARGO_TARGET_DIR": str(target)}
    # A lock file, which names a registry, stays where it is built.
    source = scratch / "rust"
    shutil.copytree(_HERE / "rust", source)
    _build((cargo, "build", "--quiet"), source, environ)
    packages = tomllib.loads((source / "Cargo.toml").read_text(encoding="utf-8"))
    version = str(packages["dependencies"]["pulsar"]["version"]).removeprefix("=")
    return Program(version, (str(target / "debug" / "calls"),))


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
PROGRAMS: Final[Mapping[str, Callable[[Path], Program | CommandLine]]] = {
    "java": lambda _: java_of(""),
    "go": _go,
    "pulsarctl": _pulsarctl,
    "rust": _rust,
}
