"""Anonymous writes in ZooKeeper: attacks that succeed on open nodes, and fail on closed ones."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.cli.main import main
from broker_ctl.daemon.lifecycle.serving import OpenNodeCheck
from broker_ctl.daemon.wiring.stores import node_access
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.settings.sources import load
from broker_ctl.store.zookeeper.access import Identity
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.anonymous import anonymous_client
from tests.support.zookeeper.secured import SASL, SecuredServer, secured_server

ATTACKS = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    with secured_server(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture
def stranger(server: SecuredServer) -> Iterator[KazooClient]:
    with anonymous_client(server.plain_address) as client:
        yield client


def attacks(stranger: KazooClient, chroot: str, broker: str, run: int) -> set[str]:
    """Which attacks succeed; each of them does on open nodes."""
    brokers, epoch = f"{chroot}/broker-ctl/brokers", f"{chroot}/broker-ctl/cluster"
    topics = f"{chroot}/admin/delete_topics"
    acts: dict[str, Callable[[], object]] = {
        "forge a registration": lambda: stranger.create(f"{brokers}/evil-{run}:1", b"{}"),
        "delete a topic": lambda: stranger.create(f"{topics}/t-{run}", b"", makepath=True),
        "write the name of the cluster": lambda: stranger.set(epoch, stranger.get(epoch)[0]),
        "end a registration": lambda: stranger.delete(f"{brokers}/{broker}"),
        "plant a child of the root": lambda: stranger.create(f"{chroot}/evil-{run}", b""),
    }
    succeeded: set[str] = set()
    for name, act in acts.items():
        with suppress(NoAuthError):
            act()
            succeeded.add(name)
    return succeeded


async def test_a_cluster_without_an_identity_is_anybody_s_until_it_is_secured(
    server: SecuredServer, stranger: KazooClient, tmp_path: Path
) -> None:
    secret = tmp_path / "sasl"
    secret.write_bytes(SASL)
    secret.chmod(0o600)
    url = f"zk:{server.plain_address}/live"
    entries = {"metadataStoreUrl": url, "zookeeperSaslDigestFile": str(secret)}
    opened = {**SETTINGS, **entries, "zookeeperSetAcl": "false"}
    file = tmp_path / "broker.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))

    async def secure(*options: str) -> tuple[int, dict[str, int]]:
        arguments = ["zookeeper", "secure", "--config", str(file), "--output", "json", *options]
        done = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        report: dict[str, int] = json.loads(done.stdout)["stores"][0]
        return done.exit_code, report

    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(tmp_path / "open", 1, opened) as daemons,
    ):
        await daemons.wait_ready(http)
        await eventually(lambda: stranger.exists("/live/broker-ctl/cluster"))
        (broker,) = stranger.get_children("/live/broker-ctl/brokers")
        before = await asyncio.to_thread(attacks, stranger, "/live", broker, 1)
        assert len(before) == ATTACKS
        await eventually(lambda: stranger.exists(f"/live/broker-ctl/brokers/{broker}"))
        # The dry run changes nothing.
        _, planned = await secure("--dry-run")
        assert planned["closed"] == planned["nodes"] == planned["still_open"] > 0
        code, done = await secure("--yes")
        assert (code, done["still_open"], done["not_ours"]) == (0, 0, 0)
        assert done["closed"] >= planned["closed"] - 1
        assert await asyncio.to_thread(attacks, stranger, "/live", broker, 2) == set()
        # A second run finds nothing to do, and the daemon serves with its identity.
        assert (await secure("--yes"))[1]["closed"] <= 2
        reply = await http.request("GET", f"{daemons.all[0].url}/readyz")
        assert reply.status == 200
    # With the default each node of a new session is closed, too.
    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(tmp_path / "closed", 1, {**SETTINGS, **entries}) as daemons,
    ):
        await daemons.wait_ready(http)
        broker = daemons.all[0].url.removeprefix("http://")
        assert await asyncio.to_thread(attacks, stranger, "/live", broker, 3) == set()
        metrics = (await http.request("GET", f"{daemons.all[0].url}/metrics")).body.decode()
        (line,) = [one for one in metrics.splitlines() if one.startswith("broker_ctl_open_znodes{")]
        assert line.endswith((" 0", " 0.0"))


@pytest.mark.parametrize(
    ("number", "allowing"),
    [
        (1, ()),
        (2, ("allowOpenMetadataStore=true",)),
        # It only watches: nothing that it reads of its own nodes does anything.
        (3, ("dataPlane=pulsar", "pulsarAdminUrl=http://127.0.0.1:1", "pulsarAct=false")),
    ],
    ids=["refused", "allowed", "watching"],
)
async def test_servers_that_take_writes_of_everybody_are_refused_off_loopback(
    server: SecuredServer,
    number: int,
    allowing: tuple[str, ...],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = tmp_path / "sasl"
    secret.write_bytes(SASL)
    secret.chmod(0o600)
    settings = load(
        None,
        {},
        [
            "metadataStoreUrl=zk:zk1:2181",
            f"zookeeperSaslDigestFile={secret}",
            *allowing,
        ],
    )
    chroot = f"/probed-{number}"
    open_store = ZooKeeperStore(StoreOptions(server.plain_address, chroot))
    ours = ZooKeeperStore(
        StoreOptions(
            server.plain_address, chroot, identity=Identity(sasl=SASL), access=node_access(settings)
        )
    )
    instruments = StoreInstruments()
    check = OpenNodeCheck(settings, [ours], instruments)
    await open_store.start()
    await ours.start()
    try:
        await open_store.create("/broker-ctl/brokers/b1", make_parents=True)
        if allowing:
            await check.verify()
        else:
            with pytest.raises(StartError, match="allowOpenMetadataStore=true"):
                await check.verify()
        # Beside a Pulsar cluster the root is Pulsar's own.
        count = 3 if "dataPlane=pulsar" in allowing else 4
        assert f"{count} of {count} nodes in ZooKeeper are open to everybody" in caplog.text
        (sample,) = instruments.open_nodes.samples()
        assert sample.value == count
        async for node in ours.access_control().walk():
            assert await ours.access_control().close_node(node.path)
        await check.verify()
        (sample,) = instruments.open_nodes.samples()
        assert sample.value == 0
        # The probe left nothing behind.
        assert await ours.children("/broker-ctl") == ["brokers"]
    finally:
        await open_store.close()
        await ours.close()


def test_without_an_identity_a_daemon_does_not_start_off_loopback(tmp_path: Path) -> None:
    def check(*lines: str) -> tuple[int, str]:
        file = tmp_path / "broker.conf"
        file.write_text("\n".join(lines))
        result = CliRunner().invoke(main, ["config", "check", str(file)])
        return result.exit_code, result.output

    foreign = "metadataStoreUrl=zk:zk1:2181"
    code, output = check(foreign)
    assert code == 1
    assert "everybody who reaches ZooKeeper could control this cluster" in output
    assert check(foreign, "allowOpenMetadataStore=true")[0] == 0
    assert check("metadataStoreUrl=zk:127.0.0.1:2181")[0] == 0
