"""The digest of a living cluster is replaced, step by step, on a real server that checks lists."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.cli.main import main
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from tests.support.security.replaced_files import replace
from tests.support.time.waiting import PATIENCE_S, eventually

OLD, NEW = "daemon:the-old-password-of-it", "daemon:the-new-password-of-it"


@contextmanager
def client(address: str, *users: str) -> Iterator[KazooClient]:
    found = KazooClient(address, auth_data=[("digest", user) for user in users])
    found.start(timeout=PATIENCE_S)
    try:
        yield found
    finally:
        found.stop()
        found.close()


def id_of(user: str) -> str:
    """As ZooKeeper's DigestAuthenticationProvider makes it."""
    hashed = base64.b64encode(hashlib.sha1(user.encode(), usedforsecurity=False).digest())
    return f"{user.partition(':')[0]}:{hashed.decode()}"


def lists(address: str) -> dict[str, set[str]]:
    """Whose each node is, as one sees who knows both passwords."""
    names = {id_of(user): user for user in (OLD, NEW)}
    found: dict[str, set[str]] = {}
    with client(address, OLD, NEW) as all_seeing:
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            if path != "/":
                acl, _ = all_seeing.get_acls(path)  # type: ignore[attr-defined]
                found[path] = {names.get(one.id.id, one.id.id) for one in acl}
            base = "" if path == "/" else path
            waiting += [f"{base}/{name}" for name in all_seeing.get_children(path)]
    return found


class Cluster:
    """Two daemons, each with a file of its own."""

    def __init__(self, daemons: Daemons, files: list[Path], http: HttpClient) -> None:
        self.daemons, self.files, self.http = daemons.all, files, http

    async def metric(self, daemon: DaemonProcess, series: str) -> float:
        page = (await self.http.request("GET", f"{daemon.url}/metrics")).body.decode()
        (line,) = [one for one in page.splitlines() if one.startswith(series)]
        return float(line.rpartition(" ")[2])

    async def replace(self, number: int, *users: str) -> None:
        """A daemon's file, whole; until its connection proves it."""
        daemon = self.daemons[number]
        log = daemon.files.log
        seen = log.read_text().count("resumed session")
        replace(self.files[number], "\n".join(users).encode())
        await eventually(lambda: log.read_text().count("resumed session") > seen)

    async def serves(self, name: str) -> None:
        """Both act on what one of them has written, and neither lost its session."""
        made = await self.http.request(
            "PUT",
            f"{self.daemons[0].url}/admin/v2/namespaces/public/{name}",
            json={"bundles": {"numBundles": 2}},
        )
        assert made.status == 204, made.body
        for daemon in self.daemons:
            path = f"/lookup/v2/topic/persistent/public/{name}/x"

            async def is_found(url: str = daemon.url + path) -> bool:
                return (await self.http.request("GET", url)).status in {200, 307}

            await eventually(is_found)
            assert await self.metric(daemon, "broker_ctl_session_epoch") == 1
            lost = 'broker_ctl_ownership_lost_total{cause="taken_away"'
            assert await self.metric(daemon, lost) == 0


@pytest.mark.slow
async def test_the_steps_of_the_guide_lose_no_session_and_end_the_old_password(
    tmp_path: Path,
) -> None:
    # A server of its own: the nodes of this test stay closed to others.
    async with Ensemble.of(tmp_path / "zookeeper", servers=1) as server:
        with client(server.connect_string) as stranger:
            stranger.ensure_path("/closed")
        await _replace_the_digest(f"{server.connect_string}/closed", tmp_path)


async def _replace_the_digest(address: str, tmp_path: Path) -> None:
    files = [tmp_path / "digest-0", tmp_path / "digest-1"]
    for file in files:
        replace(file, OLD.encode())
        file.chmod(0o600)
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{address}",
        "tlsCertRefreshCheckDurationSec": "1",
    }
    conf = tmp_path / "broker.conf"
    conf.write_text(f"metadataStoreUrl=zk:{address}\nzookeeperAuthDigestFile={files[0]}\n")

    async def secure_all() -> None:
        words = ["zookeeper", "secure", "--config", str(conf), "--all", "--yes", "--output", "json"]
        done = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert done.exit_code == 0, done.output
        (report,) = json.loads(done.stdout)["stores"]
        assert report["not_ours"] == report["still_open"] == 0

    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(
            tmp_path / "daemons",
            2,
            settings,
            lambda number: {"zookeeperAuthDigestFile": str(files[number - 1])},
        ) as daemons,
    ):
        await daemons.wait_ready(http)
        cluster = Cluster(daemons, files, http)
        made = await http.request(
            "PUT",
            f"{daemons.all[0].url}/admin/v2/tenants/public",
            json={"allowedClusters": ["quickstart"]},
        )
        assert made.status in {204, 409}
        await cluster.serves("before")
        # A new one alone would lose the nodes of the daemon: it is refused, and the old one stays.
        replace(files[0], NEW.encode())

        async def is_refused() -> bool:
            series = "broker_ctl_secret_reload_failing"
            return await cluster.metric(daemons.all[0], series) == 1

        await eventually(is_refused)
        # 1. Every daemon proves both, one after another.
        await cluster.replace(0, OLD, NEW)
        await cluster.serves("first")
        await cluster.replace(1, OLD, NEW)
        await cluster.serves("both")
        # 2. All nodes are given to both.
        await secure_all()
        assert set(map(frozenset, lists(address).values())) == {frozenset({OLD, NEW})}
        # 3. Every daemon proves the new one only.
        await cluster.replace(0, NEW)
        await cluster.serves("new")
        await cluster.replace(1, NEW)
        await cluster.serves("all-new")
        # 4. And the old one has no node any more.
        await secure_all()
        await cluster.serves("after")
        assert set(map(frozenset, lists(address).values())) == {frozenset({NEW})}
        servers, _, chroot = address.partition("/")
        with client(servers, OLD) as thief, pytest.raises(NoAuthError):
            thief.get(f"/{chroot}/broker-ctl/cluster")
