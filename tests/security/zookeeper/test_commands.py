"""Commands that open ZooKeeper: who they are to it, and which nodes they leave alone."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.demo_cluster import DemoCluster, DemoOptions
from broker_ctl.cli.main import main
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.errors import NoAuth
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.store.interface import Create
from broker_ctl.store.zookeeper.access import AclEntry, Identity
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.clusters.attached import QUICK
from tests.support.clusters.foreign_cluster import ForeignCluster, foreign_cluster
from tests.support.time.waiting import eventually
from tests.support.zookeeper.proxy import Proxy
from tests.support.zookeeper.secured import SASL, SecuredServer, secured_server

DIGEST = b"broker:digest-secret"
NUMBER = count()
SET_ACL = 7
OURS = (AclEntry("sasl", "broker"),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    with secured_server(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, Path]:
    files = {"sasl": tmp_path / "sasl", "digest": tmp_path / "digest"}
    for file, content in ((files["sasl"], SASL), (files["digest"], DIGEST)):
        file.write_bytes(content)
        file.chmod(0o600)
    return files


def played(server: SecuredServer, chroot: str, identity: Identity, address: str) -> OwnStore:
    tls = server.tls() if address == server.tls_address else None
    return ZooKeeperStore(StoreOptions(address, chroot, identity=identity, tls=tls))


@dataclass(frozen=True)
class Place:
    """A played Pulsar cluster, and where its metadata are."""

    cluster: ForeignCluster
    server: SecuredServer
    chroot: str

    @property
    def plain(self) -> str:
        return self.server.plain_address + self.chroot

    @property
    def tls(self) -> str:
        return self.server.tls_address + self.chroot

    async def lists(self, top: str = "/") -> dict[str, tuple[AclEntry, ...] | None]:
        """The access control list of each node; None where it may not be read."""
        store = played(self.server, self.chroot, Identity(sasl=SASL), self.server.plain_address)
        await store.start()
        control = store.access_control(top)
        assert control is not None
        found = {node.path: node.acl async for node in control.walk()}
        await store.close()
        return found


@pytest.fixture
async def closed(server: SecuredServer) -> AsyncIterator[Place]:
    """A Pulsar cluster whose nodes belong to three identities."""
    identity, chroot = (
        Identity(digests=[DIGEST], sasl=SASL, has_certificate=True),
        f"/c{next(NUMBER)}",
    )

    def connect(_: MemoryEnsemble) -> OwnStore:
        return played(server, chroot, identity, server.tls_address)

    async with foreign_cluster(connect=connect) as cluster:
        yield Place(cluster, server, chroot)


@pytest.fixture
async def opened(server: SecuredServer) -> AsyncIterator[Place]:
    """A Pulsar cluster with open nodes, as by default."""
    chroot = f"/c{next(NUMBER)}"

    def connect(_: MemoryEnsemble) -> OwnStore:
        return played(server, chroot, Identity(), server.plain_address)

    async with foreign_cluster(connect=connect) as cluster:
        yield Place(cluster, server, chroot)


async def run(*arguments: str | Path) -> Result:
    words = [str(argument) for argument in arguments]
    return await asyncio.to_thread(CliRunner().invoke, main, words)


async def run_process(*arguments: str | Path) -> tuple[str, str]:
    """Output and errors of a command that handles signals, and so needs a process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_ctl", *arguments), stdout=PIPE, stderr=PIPE
    )
    output, errors = await process.communicate()
    return output.decode(), errors.decode()


@pytest.mark.parametrize("kind", ["sasl", "digest", "x509", "file", "environment"])
async def test_attach_and_monitor_read_closed_nodes_with_an_identity(
    kind: str,
    closed: Place,
    secrets: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, file = closed.server, tmp_path / "client.conf"
    file.write_text(
        f"metadataStoreUrl=zk:{closed.tls}\nzookeeperTlsEnabled=true\n"
        f"zookeeperTlsCaFile={server.authority}\nzookeeperSaslDigestFile={secrets['sasl']}\n"
    )
    if kind == "environment":
        monkeypatch.setenv("BROKER_CTL_zookeeperSaslDigestFile", str(secrets["sasl"]))
    at: tuple[str | Path, ...] = {
        "sasl": ("--zookeeper", closed.plain, "--zookeeper-sasl-file", secrets["sasl"]),
        "digest": (
            *("--zookeeper", closed.tls, "--zookeeper-tls-ca", server.authority),
            *("--zookeeper-digest-file", secrets["digest"]),
        ),
        "x509": (
            *("--zookeeper", closed.tls, "--zookeeper-tls-ca", server.authority),
            *("--zookeeper-tls-cert", server.certificate, server.key),
        ),
        "file": ("--config", file),
        "environment": ("--zookeeper", closed.plain),
    }[kind]
    admin = ("--admin", closed.cluster.urls[1], "--once", "--output", "json")
    seen = await run("attach", *at, *admin)
    assert seen.exit_code == 3, seen.output
    assert json.loads(seen.stdout)["plan"]["decisions"]
    reports, errors = await run_process("brokers", "monitor", *at, "--once", "--output", "json")
    assert errors == ""
    assert len(json.loads(reports)["brokers"]) == 3


async def test_without_an_identity_closed_nodes_are_named_with_the_options_that_help(
    closed: Place,
) -> None:
    admin = ("--admin", closed.cluster.urls[0], "--once")
    refused = await run("attach", "--zookeeper", closed.plain, *admin)
    assert refused.exit_code == 1
    assert "/admin/clusters" in refused.output
    assert "--zookeeper-sasl-file" in refused.output


@pytest.mark.parametrize("option", ["--zookeeper-sasl-file", "--zookeeper-digest-file"])
@pytest.mark.parametrize("verb", ["attach", "brokers monitor", "zookeeper secure"])
async def test_no_command_shows_a_password_to_a_network(
    verb: str, option: str, secrets: dict[str, Path], tmp_path: Path
) -> None:
    kind = option.split("-")[3]
    key = {"sasl": "zookeeperSaslDigestFile", "digest": "zookeeperAuthDigestFile"}[kind]
    file = tmp_path / "broker.conf"
    file.write_text(f"metadataStoreUrl=zk:192.0.2.1:2181\n{key}={secrets[kind]}\n")
    words: tuple[str | Path, ...] = (*verb.split(), "--config", file)
    if verb != "zookeeper secure":
        words = (*verb.split(), "--zookeeper", "192.0.2.1:2181", option, secrets[kind], "--once")
    if verb == "attach":
        words = (*words, "--admin", "http://127.0.0.1:1")
    refused = await run(*words, *(("--yes",) if verb == "zookeeper secure" else ()))
    assert refused.exit_code == 1, refused.output
    assert "in the clear" in refused.output
    assert "allowCleartextCredentials" in refused.output


async def test_servers_have_to_be_named_in_one_way_or_another() -> None:
    for words in (("attach", "--admin", "http://127.0.0.1:1"), ("brokers", "monitor")):
        refused = await run(*words, "--once")
        assert refused.exit_code == 2
        assert "--zookeeper, or metadataStoreUrl" in refused.output


async def test_attach_closes_its_own_nodes_and_leaves_those_of_pulsar_alone(
    opened: Place, secrets: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "attached.conf"
    entries = {
        "dataPlane": "pulsar",
        "clusterName": "played",
        "metadataStoreUrl": f"zk:{opened.plain}",
        "zookeeperSaslDigestFile": str(secrets["sasl"]),
        "pulsarAdminUrl": opened.cluster.urls[0],
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))
    pulsars = await opened.lists()
    settings = [
        word
        for one in (*QUICK, "zookeeperTickTimeMillis=500", "logLevel=warning")
        for word in ("--set", one)
    ]
    options = ("--for", "2", "--output", "json", *settings)
    output, errors = await run_process("attach", "--config", file, *options)
    # It does not complain of Pulsar's open nodes: the brokers use them.
    assert (bool(output), errors) == (True, "")
    own = await opened.lists("/broker-ctl")
    assert len(own) > 1
    assert set(own.values()) == {OURS}
    # Nor may they be closed, not even on request.
    secured = await run(
        "zookeeper", "secure", "--config", file, "--all", "--yes", "--output", "json"
    )
    assert secured.exit_code == 0, secured.output
    (report,) = json.loads(secured.stdout)["stores"]
    assert report["nodes"] == report["closed"] == len(own)
    assert {path: acl for path, acl in (await opened.lists()).items() if path not in own} == pulsars


async def test_a_quickstart_on_own_servers_has_the_identity_of_the_environment(
    server: SecuredServer,
    secrets: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BROKER_CTL_zookeeperSaslDigestFile", str(secrets["sasl"]))
    address = server.plain_address
    demo = DemoCluster(
        DemoOptions(1, 1, 0, 1.0, is_live=False, zookeeper=address, directory=tmp_path)
    )
    async with demo._ensemble(tmp_path) as place:
        chroot = place.removeprefix(address)
        # As its daemons do, which have the same environment.
        daemon = ZooKeeperStore(
            StoreOptions(server.plain_address, chroot, identity=Identity(sasl=SASL))
        )
        await daemon.start()
        await daemon.create("/namespace/p/d", make_parents=True)
        assert {acl for _, acl in await lists(daemon)} == {OURS}
    assert await daemon.children("/") == []
    await daemon.close()


async def test_securing_that_is_killed_half_way_locks_nobody_out_and_is_repeated(
    server: SecuredServer, secrets: dict[str, Path], tmp_path: Path
) -> None:
    chroot, names = f"/c{next(NUMBER)}", [f"/a/{number}" for number in range(1200)]
    opened = ZooKeeperStore(StoreOptions(server.plain_address, chroot))
    daemon = ZooKeeperStore(
        StoreOptions(server.plain_address, chroot, identity=Identity(sasl=SASL))
    )
    await opened.start()
    await daemon.start()
    await opened.create("/a", make_parents=True)
    await opened.multi([Create(name) for name in names])
    entries = f"zookeeperSaslDigestFile={secrets['sasl']}\nmetadataStoreUrl=zk:"
    file, through = tmp_path / "broker.conf", tmp_path / "through.conf"
    file.write_text(f"{entries}{server.plain_address}{chroot}\n")
    async with Proxy.to(server.ensemble.servers[0].client_port) as proxy:
        through.write_text(f"{entries}{proxy.address}{chroot}\n")
        # Slow enough to be caught half-way.
        proxy.delay_s = 0.005
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "broker_ctl", "zookeeper", "secure", "--yes"),
            *("--config", str(through)),
        )
        await eventually(lambda: proxy.opcodes.count(SET_ACL) > 20, what="some are closed")
        process.kill()
        assert await process.wait() == -signal.SIGKILL
    closed = {path: acl for path, acl in await lists(daemon) if acl == OURS}
    assert 20 <= len(closed) < len(names)
    # Daemons have the identity, and use all nodes, closed and open.
    for name in (names[0], names[-1]):
        await daemon.set(name, b"1")
        await daemon.create(f"{name}/child", make_parents=True)
    # The parents come first: nobody else removes or forges what is still open.
    with pytest.raises(NoAuth):
        await opened.delete(names[-1])
    await opened.set(names[-1], b"2")
    again = await run("zookeeper", "secure", "--config", file, "--yes", "--output", "json")
    assert again.exit_code == 0, again.output
    (report,) = json.loads(again.stdout)["stores"]
    assert (report["still_open"], report["not_ours"]) == (0, 0)
    # What was closed is left as it is.
    assert report["closed"] <= report["nodes"] - len(closed)
    assert "1000 nodes seen" in again.stderr
    assert "1000 of about 1204 nodes checked" in again.stderr
    assert {acl for _, acl in await lists(daemon)} == {OURS}
    await daemon.delete(f"{names[0]}/child")
    with pytest.raises(NoAuth):
        await opened.get(names[-1])
    await opened.close()
    await daemon.close()


async def lists(store: ZooKeeperStore) -> list[tuple[str, tuple[AclEntry, ...] | None]]:
    return [(node.path, node.acl) async for node in store.access_control().walk()]
