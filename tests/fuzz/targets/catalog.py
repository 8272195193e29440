"""The targets by name: each takes any bytes, and raises only what is a mistake of ours."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.fuzz.targets import http, names, payloads, pulsar, zookeeper

CORPUS: Final = Path(__file__).parents[1] / "corpus"
TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "http_bodies": http.bodies,
    "http_headers": http.headers,
    "names": names.names,
    "paths": names.paths,
    "patterns": names.patterns,
    "pulsar_commands": pulsar.commands,
    "znode_payloads": payloads.payloads,
    "zookeeper_replies": zookeeper.replies,
    "zookeeper_streams": zookeeper.streams,
}
