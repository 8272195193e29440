"""A released Apache Pulsar on this machine: unpacked once by Maven, for all clones of one user."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.java import first_new_enough, installed

_POM: Final = Path(__file__).parents[2] / "pulsar" / "pom.xml"
_VERSION: Final = "{*}properties/{*}pulsar.version"
# A quarter of a gigabyte comes over the network, once.
_MAVEN_DEADLINE_S: Final = 1_800


class PulsarMissing(Exception):
    """Pulsar cannot be had here; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What runs Pulsar: a Java of version 17 or newer, and the jars of one release."""

    java: Path
    version: str
    lib: Path

    @property
    def class_path(self) -> str:
        """All jars, as ``java -cp`` takes them; order does not matter to Pulsar."""
        return f"{self.lib}/*"


def distribution() -> Distribution:
    """The release that ``tests/pulsar/pom.xml`` names, unpacked now unless it has been before.

    It is kept in the user's cache directory (``XDG_CACHE_HOME``), below ``broker-ctl``.

    Raises:
        PulsarMissing: no Java, no Maven, or Maven failed.
    """
    search = asyncio.run(first_new_enough(installed(os.environ)))
    if search.java is None:
        raise PulsarMissing(f"{search.complaint}: the tests against Apache Pulsar need one")
    version = ET.parse(_POM).findtext(_VERSION)
    assert version is not None
    unpacked = _cache() / f"pulsar-{version}"
    _unpack_once(unpacked)
    return Distribution(search.java, version, unpacked / f"apache-pulsar-{version}" / "lib")


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "broker-ctl")


def _unpack_once(unpacked: Path) -> None:
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    # Two test runs that start together: the second waits, and finds what the first unpacked.
    with unpacked.with_name(f"{unpacked.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if unpacked.exists():
            return
        # Under another name until it is whole: a run that is cut short leaves nothing half there.
        with tempfile.TemporaryDirectory(dir=unpacked.parent, prefix="unpacking-") as scratch:
            whole = Path(scratch, "whole")
            _run_maven(whole)
            shutil.rmtree(whole / "maven", ignore_errors=True)
            whole.rename(unpacked)


def _run_maven(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PulsarMissing("no mvn in PATH: the tests against Apache Pulsar need Apache Maven")
    command = (maven, "-q", "-B", "-f", str(_POM), f"-Ddistribution.directory={target}")
    try:
        subprocess.run(
            (*command, "initialize"),
            check=True,
            timeout=_MAVEN_DEADLINE_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise PulsarMissing(f"Maven could not bring Apache Pulsar:\n{error.stdout}") from error
    except subprocess.TimeoutExpired as error:
        raise PulsarMissing(f"Maven did not bring it within {_MAVEN_DEADLINE_S} s") from error
