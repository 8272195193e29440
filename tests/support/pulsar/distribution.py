"""A released Apache Pulsar on this machine: unpacked once by Maven, for all clones of one user."""

import asyncio
import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.java import OLDEST_MAJOR, first_new_enough, installed
from tests.support.java.maven import MavenFailed, brought_once

_POM: Final = Path(__file__).parents[2] / "pulsar" / "pom.xml"
_VERSION: Final = "{*}properties/{*}pulsar.version"
_OLDEST_JAVA_OF_5: Final = 25


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
    try:
        unpacked = brought_once(f"pulsar-{version}", _POM, {"pulsar.version": version})
    except MavenFailed as error:
        raise PulsarMissing(str(error)) from error
    return Distribution(search.java, version, unpacked / f"apache-pulsar-{version}" / "lib")
