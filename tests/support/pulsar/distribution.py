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

from broker_ctl.java import OLDEST_MAJOR, first_new_enough, installed

_POM: Final = Path(__file__).parents[2] / "pulsar" / "pom.xml"
_VERSION: Final = "{*}properties/{*}pulsar.version"
_OLDEST_JAVA_OF_5: Final = 25
# A quarter of a gigabyte comes over the network, once.
_MAVEN_DEADLINE_S: Final = 1_800


class PulsarMissing(Exception):
    """Pulsar cannot be had here; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What runs Pulsar: a Java that is new enough, and the jars of one release."""

    java: Path
    version: str
    lib: Path

    @property
    def class_path(self) -> str:
        """All jars, as ``java -cp`` takes them; order does not matter to Pulsar."""
        return f"{self.lib}/*"


def distribution(version: str = "") -> Distribution:
    """A release, or the one that ``tests/pulsar/pom.xml`` names; unpacked unless it has been.

    It is kept in the user's cache directory (``XDG_CACHE_HOME``), below ``broker-ctl``.

    Raises:
        PulsarMissing: no Java, no Maven, or Maven failed.
    """
    version = version or ET.parse(_POM).findtext(_VERSION) or ""
    oldest = _OLDEST_JAVA_OF_5 if int(version.partition(".")[0]) >= 5 else OLDEST_MAJOR
    search = asyncio.run(first_new_enough(installed(os.environ), oldest))
    if search.java is None:
        raise PulsarMissing(f"{search.complaint}: Apache Pulsar {version} needs one")
    unpacked = _cache() / f"pulsar-{version}"
    _unpack_once(unpacked, version)
    return Distribution(search.java, version, unpacked / f"apache-pulsar-{version}" / "lib")


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "broker-ctl")


def _unpack_once(unpacked: Path, version: str) -> None:
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    # Two test runs that start together: the second waits, and finds what the first unpacked.
    with unpacked.with_name(f"{unpacked.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if unpacked.exists():
            return
        # Under another name until it is whole: a run that is cut short leaves nothing half there.
        with tempfile.TemporaryDirectory(dir=unpacked.parent, prefix="unpacking-") as scratch:
            whole = Path(scratch, "whole")
            _run_maven(whole, version)
            shutil.rmtree(whole / "maven", ignore_errors=True)
            whole.rename(unpacked)


def _run_maven(target: Path, version: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PulsarMissing("no mvn in PATH: the tests against Apache Pulsar need Apache Maven")
    chosen = (f"-Dpulsar.version={version}", f"-Ddistribution.directory={target}")
    command = (maven, "-q", "-B", "-f", str(_POM), *chosen)
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
