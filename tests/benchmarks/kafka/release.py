"""Apache Kafka on this machine: the jars of the release in `pom.xml`, and a Java for them."""

import asyncio
import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.java import OLDEST_MAJOR, first_new_enough, installed
from tests.support.java.maven import MavenFailed, brought_once

_POM: Final = Path(__file__).with_name("pom.xml")


@dataclass(frozen=True, slots=True)
class Release:
    """What runs Kafka."""

    java: Path
    version: str
    lib: Path

    @property
    def class_path(self) -> str:
        """All jars, as ``java -cp`` takes them."""
        return f"{self.lib}/*"


async def release() -> Release:
    """Brought by Maven at the first use.

    Raises:
        MavenFailed: no Java, no Maven, or Maven failed.
    """
    version = ET.parse(_POM).findtext("{*}properties/{*}kafka.version") or ""
    search = await first_new_enough(installed(os.environ), OLDEST_MAJOR)
    if search.java is None:
        raise MavenFailed(f"{search.complaint}: Apache Kafka {version} needs one")
    name = f"kafka-{version}"
    brought = await asyncio.to_thread(brought_once, name, _POM, {"kafka.version": version})
    return Release(search.java, version, brought / "lib")
