"""Files that Maven brings onto this machine once, for all clones of one user."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# A quarter of a gigabyte comes over the network, once.
_DEADLINE_S: Final = 1_800


class MavenFailed(Exception):
    """Something cannot be had here; the message says what to install."""


def brought_once(name: str, pom: Path, properties: Mapping[str, str]) -> Path:
    """The directory that the phase ``initialize`` of ``pom`` fills, unless it was filled before.

    It is in the user's cache directory (``XDG_CACHE_HOME``), below ``broker-ctl``; ``pom`` finds it
    in the property ``distribution.directory``.

    Raises:
        MavenFailed: no Maven, or it failed.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    filled = Path(home, "broker-ctl", name)
    filled.parent.mkdir(parents=True, exist_ok=True)
    # Two test runs that start together: the second waits, and finds what the first brought.
    with filled.with_name(f"{name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not filled.exists():
            # Under another name until it is whole: a run that is cut short leaves nothing behind.
            with tempfile.TemporaryDirectory(dir=filled.parent, prefix="unpacking-") as scratch:
                whole = Path(scratch, "whole")
                _run(name, pom, {**properties, "distribution.directory": str(whole)})
                shutil.rmtree(whole / "maven", ignore_errors=True)
                whole.rename(filled)
    return filled


def _run(name: str, pom: Path, properties: Mapping[str, str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenFailed(f"no mvn in PATH: {name} needs Apache Maven")
    chosen = (f"-D{key}={value}" for key, value in properties.items())
    try:
        subprocess.run(
            (maven, "-q", "-B", "-f", str(pom), *chosen, "initialize"),
            check=True,
            timeout=_DEADLINE_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise MavenFailed(f"Maven could not bring {name}:\n{error.stdout}") from error
    except subprocess.TimeoutExpired as error:
        raise MavenFailed(f"Maven did not bring {name} within {_DEADLINE_S} s") from error
