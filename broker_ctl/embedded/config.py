"""Configuration, logging and command line of a server.

All paths are relative to the server's directory, in which it runs: Java reads property files as
Latin-1 with escapes, which a path of the user's choice does not survive.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from broker_ctl.embedded.ports import LOOPBACK

TICK_MS: Final = 500
LONGEST_SESSION_MS: Final = 60_000
DATA: Final = "data"
ZOO_CFG: Final = "zoo.cfg"
LOG4J2: Final = "log4j2.properties"

# A follower may be 2 s behind its leader, and has 10 s to join one.
_SYNC_TICKS: Final = 4
_INIT_TICKS: Final = 20

# To stdout, which is redirected to the server's log, so that errors of the JVM itself are in the
# same file.
LOGGING: Final = """\
status = error
appender.log.type = Console
appender.log.name = log
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
"""


class Purpose(Enum):
    """The purpose of the servers.

    QUICK_START: starts fast, uses little memory. SUSTAINED_LOAD: as in production; reaches full
    speed after some 100,000 requests.
    """

    QUICK_START = "quick start"
    SUSTAINED_LOAD = "sustained load"

    def java_options(self, heap_mb: int) -> tuple[str, ...]:
        """Java options for heap, collector and compiler."""
        most = f"-Xmx{heap_mb}m"
        if self is Purpose.QUICK_START:
            # One small heap on two shared cores: the collector and the compiler that start fastest.
            return (most, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        # Growing the heap pauses the server, so it starts at full size. The compiler is Java's
        # default.
        return (most, f"-Xms{heap_mb}m", "-XX:+UseG1GC")


@dataclass(frozen=True, slots=True)
class Address:
    """One server's number and its ports on the loopback address."""

    id: int
    client_port: int
    quorum_port: int
    election_port: int


@dataclass(frozen=True, slots=True)
class Extras:
    """What servers have besides, such as SASL or a TLS port.

    Attributes:
        lines: of the configuration file.
        java_options: of the command line.
        files: contents by name, in the directory of the server.
        has_tls: whether the classes for TLS are loaded.
        observers: numbers of the servers that follow without a vote.
    """

    lines: Sequence[str] = ()
    java_options: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_tls: bool = False
    observers: Collection[int] = ()


NO_EXTRAS: Final = Extras()


def zoo_cfg(
    own: Address, ensemble: Sequence[Address], *, fsync: bool, extras: Extras = NO_EXTRAS
) -> str:
    """The configuration file of one server of ``ensemble``.

    Docs: zookeeper-session-rules, zookeeper-wire.
    """
    lines = [
        f"dataDir=./{DATA}",
        f"clientPort={own.client_port}",
        f"clientPortAddress={LOOPBACK}",
        f"tickTime={TICK_MS}",
        f"maxSessionTimeout={LONGEST_SESSION_MS}",
        "maxClientCnxns=0",
        f"forceSync={'yes' if fsync else 'no'}",
        "extendedTypesEnabled=true",
        "4lw.commands.whitelist=srvr,mntr,ruok,stat",
        "admin.enableServer=false",
        # Otherwise snapshots of past starts would accumulate in a directory in long use.
        "autopurge.purgeInterval=1",
    ]
    if len(ensemble) > 1:
        lines += [f"initLimit={_INIT_TICKS}", f"syncLimit={_SYNC_TICKS}"]
        lines += ["quorumListenOnAllIPs=false"]
        lines += [
            f"server.{peer.id}={LOOPBACK}:{peer.quorum_port}:{peer.election_port}"
            + (":observer" if peer.id in extras.observers else "")
            for peer in ensemble
        ]
    if own.id in extras.observers:
        lines += ["peerType=observer"]
    return "\n".join([*lines, *extras.lines]) + "\n"


def command(
    java: Path, classpath: str, heap_mb: int, purpose: Purpose, extras: Extras = NO_EXTRAS
) -> tuple[str, ...]:
    """The command line of a server, to be run in the server's directory."""
    return (
        str(java),
        *purpose.java_options(heap_mb),
        "-XX:-UsePerfData",
        f"-Dlog4j2.configurationFile={LOG4J2}",
        *extras.java_options,
        "-cp",
        classpath,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        f"./{ZOO_CFG}",
    )
