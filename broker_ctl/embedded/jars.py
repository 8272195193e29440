"""The ZooKeeper server inside the PySpark wheel."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from broker_ctl.errors import EmbeddedError

INSTALL: Final = "pip install 'broker-ctl[embedded]'"

# All jars that a server without TLS loads; the wheel has 250 others.
_NEEDED: Final = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-[0-9]*.jar",
    "slf4j-api-[0-9]*.jar",
    "log4j-slf4j2-impl-[0-9]*.jar",
    "log4j-api-[0-9]*.jar",
    "log4j-core-[0-9]*.jar",
    "metrics-core-[0-9]*.jar",
    "snappy-java-[0-9]*.jar",
)
# And those that a server with a TLS port loads.
_NEEDED_FOR_TLS: Final = (
    "netty-buffer-[0-9]*.jar",
    "netty-codec-[0-9]*.jar",
    "netty-codec-base-[0-9]*.jar",
    "netty-common-[0-9]*.jar",
    "netty-handler-[0-9]*.jar",
    "netty-resolver-[0-9]*.jar",
    "netty-transport-[0-9]*.jar",
    "netty-transport-classes-epoll-[0-9]*.jar",
    "netty-transport-native-unix-common-[0-9]*.jar",
)


def classpath(*, has_tls: bool = False) -> str:
    """The class path of a ZooKeeper server.

    Raises:
        EmbeddedError: PySpark is not installed, or its jars are not in the wheel.
    """
    # Located, not imported: importing pyspark takes a second.
    wheel = find_spec("pyspark")
    if wheel is None or not wheel.submodule_search_locations:
        raise EmbeddedError(
            f"the embedded ZooKeeper comes with PySpark, which is not installed: run: {INSTALL}"
        )
    needed = (*_NEEDED, *_NEEDED_FOR_TLS) if has_tls else _NEEDED
    folder = Path(wheel.submodule_search_locations[0], "jars")
    return os.pathsep.join(str(_jar(folder, pattern)) for pattern in needed)


def _jar(folder: Path, pattern: str) -> Path:
    for jar in folder.glob(pattern):
        return jar
    raise EmbeddedError(f"no {pattern} in {folder}: run: {INSTALL}")
