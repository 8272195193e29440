"""The ZooKeeper servers of compose.yaml, started by hand with its files: TLS and SASL only."""

import asyncio
import os
import random
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
from broker_ctl.errors import StoreError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.embedded import guard
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import ask_role, classpath, find_java
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from broker_ctl.store.zookeeper.access import AclEntry
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.time.waiting import eventually

pytestmark = pytest.mark.slow

DOCKER = Path(__file__).parents[2] / "deploy" / "docker"
SERVERS = (1, 2, 3)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    directory = tmp_path / "secrets"
    # The address that stands for the names of the containers.
    subprocess.run([DOCKER / "make-secrets", directory, "IP:127.0.0.1"], check=True)
    return directory


class Composition:
    """Three servers with the configuration of compose.yaml, at ports of this machine."""

    def __init__(self, directory: Path, secrets: Path) -> None:
        self._directory, self._secrets = directory, secrets
        self._held = ExitStack()
        self.plain = {number: self._reserve() for number in SERVERS}
        self.secure = {number: self._reserve() for number in SERVERS}
        self.quorum = {number: (self._reserve(), self._reserve()) for number in SERVERS}

    def _reserve(self) -> int:
        return port_of(self._held.enter_context(reserve_port()))

    @property
    def quorum_ports(self) -> list[int]:
        """Of elections; those for followers listen at the leader only."""
        return [elect for _, elect in self.quorum.values()]

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.secure.values())

    def local(self, text: str, number: int) -> str:
        """Lines of a configuration, with the paths and addresses of this machine."""
        home = self._directory / str(number)
        for here, there in {
            "/run/secrets": str(self._secrets),
            "=/data\n": f"={home}/data\n",
            "=/datalog\n": f"={home}/datalog\n",
            "\nsecureClientPort=2281\n": f"\nsecureClientPort={self.secure[number]}\n",
            "\nclientPort=2181\n": f"\nclientPort={self.plain[number]}\n",
            **{
                f"zookeeper-{other}:2888:3888": f"127.0.0.1:{follow}:{elect}"
                for other, (follow, elect) in self.quorum.items()
            },
        }.items():
            text = text.replace(here, there)
        return text

    @asynccontextmanager
    async def server(self, number: int) -> AsyncIterator[None]:
        home = self._directory / str(number)
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(f"{number}\n")
        configuration = home / "zoo.cfg"
        configuration.write_text(self.local((DOCKER / "zookeeper" / "zoo.cfg").read_text(), number))
        (flags,) = re.findall(
            r'SERVER_JVMFLAGS: &\w+ "(.*)"', (DOCKER / "compose.yaml").read_text()
        )
        with (home / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", guard.__file__, str(os.getpid())),
                *(str(await find_java(os.environ)), "-Xmx128m", "-XX:TieredStopAtLevel=1"),
                *self.local(flags, number).split(),
                *("-cp", classpath(has_tls=True)),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(configuration),
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            process.kill()
            await process.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as ends:
            ends.callback(self._held.close)
            for number in SERVERS:
                await ends.enter_async_context(self.server(number))
            await eventually(self._is_serving, what="all servers serve")
            yield

    async def _is_serving(self) -> bool:
        return all([await ask_role(port) for port in self.plain.values()])


def settings_of(composition: Composition, secrets: Path) -> Settings:
    """Those of a broker of the composition, at the addresses of this machine."""
    lines = (DOCKER / "broker.env").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    environment["BROKER_CTL_metadataStoreUrl"] = f"zk:{composition.addresses}/broker-ctl"
    here = {key: text.replace("/run/secrets", str(secrets)) for key, text in environment.items()}
    return load(None, here, ["advertisedAddress=127.0.0.1"])


async def test_only_brokers_reach_the_servers_and_own_their_nodes(
    tmp_path: Path, secrets: Path
) -> None:
    composition = Composition(tmp_path, secrets)
    settings = settings_of(composition, secrets)
    url = settings.metadata.store_url
    assert url is not None
    async with composition.running():
        store = open_store(
            settings,
            url,
            "metadata-store",
            random.Random(1),
            instruments=StoreInstruments(),
            credentials=StoreCredentials.now(settings),
        )
        await store.start()
        await store.create("/a/b", b"1", make_parents=True)
        found = {node.path: node.acl async for node in store.access_control().walk()}
        await store.close()
        assert found.keys() == {"/", "/a", "/a/b"}
        assert set(found.values()) == {(AclEntry("sasl", "broker"),)}
        # Clients without the password get no session that can do anything, be it over TLS.
        for port, tls in (
            (composition.secure[1], ssl.create_default_context(cafile=secrets / "zookeeper-ca")),
            (composition.plain[1], None),
        ):
            stranger = ZooKeeperStore(
                StoreOptions(f"127.0.0.1:{port}", operation_timeout_s=3.0, tls=tls)
            )
            await stranger.start()
            with pytest.raises(StoreError):
                await stranger.create("/forged")
            await stranger.close()
        for port in (*composition.secure.values(), *composition.quorum_ports):
            assert await answers_in_the_clear(port) == b""
        # Only who has the servers' certificate is listened to in their elections.
        port = composition.quorum_ports[0]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await speak_to_server(port, None)
        with pytest.raises(TimeoutError):
            await speak_to_server(port, secrets / "zookeeper-certificate")


async def answers_in_the_clear(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"srvr")
    try:
        async with asyncio.timeout(2):
            return await reader.read()
    except (TimeoutError, ConnectionError):
        return b""
    finally:
        writer.close()


async def speak_to_server(port: int, certificate: Path | None) -> None:
    """Ends with TimeoutError if the server waits for what is said."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        async with asyncio.timeout(2):
            if not await reader.read(1):
                raise ConnectionError("closed")
    finally:
        writer.close()
