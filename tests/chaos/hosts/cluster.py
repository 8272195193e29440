"""The cluster of a run, each daemon and each server on a host of its own."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Extras, ServerAddress
from tests.chaos.cluster.cluster import DAEMON, DAEMONS, SERVERS, Cluster
from tests.chaos.hosts.network import Network
from tests.chaos.judges.acts import Guard

_SERVERS: Final = 3
PORT: Final = 2181
# One name with the addresses of all servers, as of a headless service.
_NAME: Final = "zookeeper"
# In its own directory a server of the run is at home on the host of that name.
_JAVA: Final = """\
#!/bin/sh
case "${{PWD##*/}}" in
    server-*) exec {nsenter} --net="/run/netns/${{PWD##*/}}" {java} "$@" ;;
esac
exec {java} "$@"
"""


def server(number: int) -> str:
    """The name of its host."""
    return f"server-{number}"


def daemon(number: int) -> str:
    """The name of the host of a daemon and its broker process."""
    return f"daemon-{number}"


ALL_SERVERS: Final = tuple(server(number + 1) for number in range(_SERVERS))
ALL_DAEMONS: Final = tuple(daemon(number + 1) for number in range(DAEMONS))
_ADDRESSES: Final = {
    **{name: f"10.77.0.{10 + number}" for number, name in enumerate(ALL_SERVERS, start=1)},
    **{name: f"10.77.0.{20 + number}" for number, name in enumerate(ALL_DAEMONS, start=1)},
}


class _HostedDaemon(DaemonProcess):
    """A daemon that others find at the address of its host."""

    def __init__(
        self,
        directory: Path,
        number: int,
        settings: Mapping[str, str],
        command: Sequence[str],
    ) -> None:
        self._address = _ADDRESSES[daemon(number)]
        super().__init__(
            directory, number, {**settings, "advertisedAddress": self._address}, command
        )

    @property
    def broker_id(self) -> str:
        return f"{self._address}:{self._port}"


class HostedCluster(Cluster):
    """All processes of one phase, on hosts.

    The checker's own counter goes through proxies as ever; daemons have nothing between them and
    the servers. The last of them finds all servers by one name.
    """

    def __init__(
        self,
        directory: Path,
        guard: Guard,
        more: Mapping[int, Mapping[str, str]] | None = None,
        command: Sequence[str] = DAEMON,
    ) -> None:
        super().__init__(directory, guard, more, command)
        self.network = Network(_ADDRESSES, ALL_DAEMONS)
        # Known once the servers have their ports: what stands last in their files holds.
        self._lines = [f"clientPort={PORT}", "clientPortAddress=0.0.0.0"]
        self.ensemble = Ensemble.of(
            directory / "zookeeper",
            servers=_SERVERS,
            first_port=PORT,
            heap_mb=128,
            seen_by=self._seen_by,
            environ={"JAVA_HOME": str(self._java()), "PATH": "/usr/bin:/bin"},
            extras=Extras(self._lines, java_options=SERVERS.java_options),
        )

    async def _start(self) -> None:
        await self._scope.enter_async_context(self.network)
        for number, name in enumerate(ALL_SERVERS):
            await self.network.find(PORT + number, name, PORT)
        names = {_NAME: [_ADDRESSES[name] for name in ALL_SERVERS]}
        await self.network.name(names, self._directory)
        await super()._start()

    async def _show_log(self) -> None:
        await self.network.show(self.log.port)

    def _command_at(self, number: int) -> Sequence[str]:
        return self.network.hosts[daemon(number)].command

    def _daemon(self, number: int, settings: Mapping[str, str]) -> DaemonProcess:
        servers = ",".join(f"{_ADDRESSES[name]}:{PORT}" for name in ALL_SERVERS)
        by_name = f"{_NAME}:{PORT}"
        store = f"zk:{by_name if number == DAEMONS else servers}{self.chroot}"
        own = {
            "metadataStoreUrl": store,
            "configurationMetadataStoreUrl": store,
            # They are not on loopback, and have no users here.
            "allowOpenMetadataStore": "true",
        }
        command = (*self._command_at(number), *self._command)
        return _HostedDaemon(self._directory, number, {**settings, **own}, command)

    async def heal(self) -> None:
        await self.network.heal()
        await super().heal()

    def _java(self) -> Path:
        """A Java that begins on the host of the server."""
        java = shutil.which("java")
        assert java is not None, "the servers need Java in PATH"
        home = self._directory / "java"
        script = home / "bin" / "java"
        script.parent.mkdir(parents=True)
        script.write_text(_JAVA.format(nsenter=shutil.which("nsenter"), java=java))
        script.chmod(0o755)
        return home

    def _seen_by(self, _: ServerAddress, peer: ServerAddress) -> ServerAddress:
        where = f"{_ADDRESSES[server(peer.id)]}:{peer.quorum_port}:{peer.election_port}"
        if (line := f"server.{peer.id}={where}") not in self._lines:
            self._lines.append(line)
        return peer
