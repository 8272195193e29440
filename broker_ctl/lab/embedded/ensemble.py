"""One ZooKeeper server, or three that elect a leader, below one directory."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from broker_ctl.errors import EmbeddedError
from broker_ctl.lab.embedded.ports import LOOPBACK, port_of, reserve_port
from broker_ctl.lab.embedded.server import (
    NO_EXTRAS,
    SERVING_DEADLINE_S,
    Extras,
    Purpose,
    Role,
    ServerAddress,
    ZooKeeperServer,
    classpath,
    command,
    find_java,
)
from broker_ctl.tasks import TaskScope

SIZES: Final = (1, 3)
_POLL_S: Final = 0.05
_LOCK: Final = "lock"
# Long enough to observe how clients handle the outage.
_RESTART_PAUSE_S: Final = 5.0


class Ensemble:
    """Servers for development and tests: all on this machine, which gives no redundancy.

    A context manager: ``async with Ensemble.of(directory, servers=3) as ensemble``. An ensemble of
    the same size on the same directory finds the data again.
    """

    def __init__(
        self,
        directory: Path,
        size: int,
        first_port: int | None,
        heap_mb: int,
        environ: Mapping[str, str],
        *,
        purpose: Purpose,
        fsync: bool,
        seen_by: Callable[[ServerAddress, ServerAddress], ServerAddress],
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._directory = directory
        self._size = size
        self._first_port = first_port
        self._heap_mb = heap_mb
        self._environ = environ
        self._purpose = purpose
        self._fsync = fsync
        self._views = seen_by
        self._extras = extras
        self._held = ExitStack()
        self._servers: tuple[ZooKeeperServer, ...] = ()

    @classmethod
    def of(
        cls,
        directory: Path,
        servers: int = 1,
        *,
        first_port: int | None = None,
        heap_mb: int = 256,
        purpose: Purpose = Purpose.QUICK_START,
        fsync: bool = False,
        environ: Mapping[str, str] | None = None,
        seen_by: Callable[[ServerAddress, ServerAddress], ServerAddress] = lambda _, peer: peer,
        extras: Extras = NO_EXTRAS,
    ) -> Self:
        """Build an ensemble; does not start it.

        Args:
            directory: for data, configuration and logs; created if it does not exist.
            servers: 1 or 3.
            first_port: client port of server 1, the others follow; None: free ports.
            heap_mb: maximum Java heap of each server, in MiB.
            purpose: selects Java options.
            fsync: whether a write waits for the disk. Without it a crash of the machine (not of a
                server) can lose acknowledged writes.
            environ: environment for JAVA_HOME and PATH; None: that of this process.
            seen_by: maps the address at which the first server reaches the second; unchanged by
                default.
            extras: what the servers have besides.

        Raises:
            EmbeddedError: there is no ensemble of that size.
        """
        if servers not in SIZES:
            raise EmbeddedError(f"an ensemble has {SIZES[0]} or {SIZES[1]} servers, not {servers}")
        return cls(
            directory.absolute(),
            servers,
            first_port,
            heap_mb,
            os.environ if environ is None else environ,
            purpose=purpose,
            fsync=fsync,
            seen_by=seen_by,
            extras=extras,
        )

    @property
    def servers(self) -> tuple[ZooKeeperServer, ...]:
        """The servers by number; none before `start`."""
        return self._servers

    @property
    def connect_string(self) -> str:
        """``host:port`` of all servers, joined by commas, for clients."""
        return ",".join(f"{LOOPBACK}:{server.client_port}" for server in self._servers)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self, deadline_s: float = SERVING_DEADLINE_S) -> None:
        """Start all servers at once and wait until each serves.

        Raises:
            EmbeddedError: no Java, no jars, a port or directory in use, or a server that died or
                did not serve by the deadline. All servers are stopped then.
        """
        if self._servers:
            raise EmbeddedError(f"the ensemble in {self._directory} runs already")
        launch = await _launch(self._environ, self._heap_mb, self._purpose, self._extras)
        try:
            self._lock_directory()
            addresses = self._reserve_ports()
            self._servers = tuple(
                ZooKeeperServer(
                    self._directory / f"server-{own.id}",
                    own,
                    self._view_of(own, addresses),
                    launch,
                    fsync=self._fsync,
                    extras=self._extras,
                )
                for own in addresses
            )
            for server in self._servers:
                await server.start()
            await self._wait_serving(deadline_s)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all servers and release their ports and their directory."""
        try:
            async with asyncio.TaskGroup() as group:
                for server in self._servers:
                    group.create_task(server.stop(), name=f"stop ZooKeeper server {server.id}")
        finally:
            # If interrupted, each server has already been sent a SIGKILL.
            self._servers = ()
            self._held.close()

    async def leader(self) -> ZooKeeperServer:
        """The server that leads, or the single one.

        Raises:
            EmbeddedError: no server leads at present.
        """
        for server in self._servers:
            if await server.role() in (Role.LEADER, Role.STANDALONE):
                return server
        raise EmbeddedError("no server leads")

    async def followers(self) -> tuple[ZooKeeperServer, ...]:
        """The servers that follow now."""
        return tuple([server for server in self._servers if await server.role() is Role.FOLLOWER])

    async def supervise(self, report: Callable[[str], None]) -> None:
        """Restart servers that die; returns once all were stopped or killed on purpose.

        Args:
            report: called with a sentence for each server that died, or serves again.

        Raises:
            EmbeddedError: the remaining servers have no majority; with the cause of the last death.
        """
        async with TaskScope("embedded ZooKeeper") as scope:
            attended = {
                scope.start(self._supervise_server(server, report), f"attend server {server.id}")
                for server in self._servers
            }
            while attended:
                done, attended = await asyncio.wait(attended, return_when=asyncio.FIRST_COMPLETED)
                for end in done:
                    if (error := end.result()) is not None:
                        raise error

    async def _supervise_server(
        self, server: ZooKeeperServer, report: Callable[[str], None]
    ) -> EmbeddedError | None:
        """Return None once it was stopped on purpose, or its error once no majority is left."""
        while (error := await server.wait_death()) is not None:
            # No await in between: of two servers that die together, the second one counts the
            # first.
            left = sum(each.is_running for each in self._servers)
            if 2 * left <= self._size:
                return error
            report(
                f"{error}\n{left} of {self._size} servers are left and serve on;"
                f" server {server.id} starts again in {_RESTART_PAUSE_S:g} s"
            )
            await asyncio.sleep(_RESTART_PAUSE_S)
            await server.start()
            try:
                await server.wait_serving()
            except EmbeddedError as trouble:
                report(str(trouble))
            else:
                report(f"server {server.id} serves again, pid {server.pid}")
        return None

    async def _wait_serving(self, deadline_s: float) -> None:
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    # Each round asks all servers, so that one that died is noticed while another
                    # boots.
                    if all([await server.is_serving() for server in self._servers]):
                        return
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            for server in self._servers:
                if await server.role() is None:
                    raise server.complaint(f"does not serve within {deadline_s:g} s") from error
            raise EmbeddedError(f"not all servers serve within {deadline_s:g} s") from error

    def _view_of(
        self, own: ServerAddress, addresses: Sequence[ServerAddress]
    ) -> tuple[ServerAddress, ...]:
        return tuple(peer if peer is own else self._views(own, peer) for peer in addresses)

    def _lock_directory(self) -> None:
        """Lock the directory for this process: two servers on one log would destroy it."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            lock: IO[bytes] = self._held.enter_context((self._directory / _LOCK).open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EmbeddedError(f"another ensemble runs in {self._directory}") from error
        except OSError as error:
            raise EmbeddedError(f"{self._directory} cannot be used: {error}") from error
        size = sum(1 for _ in self._directory.glob("server-*"))
        # A quorum of empty servers would outvote the one that holds the data.
        if size not in (0, self._size):
            raise EmbeddedError(
                f"{self._directory} holds the data of {size} server(s), not of {self._size}"
            )

    def _reserve_ports(self) -> tuple[ServerAddress, ...]:
        def reserve(port: int = 0) -> int:
            return port_of(self._held.enter_context(reserve_port(port)))

        # The named ports first, so that none of them is chosen as a free one.
        offsets = range(self._size)
        first = self._first_port
        clients = [reserve() if first is None else reserve(first + offset) for offset in offsets]
        return tuple(
            ServerAddress(number, client, reserve(), reserve())
            for number, client in enumerate(clients, start=1)
        )


async def _launch(
    environ: Mapping[str, str], heap_mb: int, purpose: Purpose, extras: Extras
) -> tuple[str, ...]:
    """The command line of each server."""
    java = await find_java(environ)
    return command(java, classpath(has_tls=extras.has_tls), heap_mb, purpose, extras)
