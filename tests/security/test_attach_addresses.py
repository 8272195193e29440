"""A writer to the ZooKeeper of a Pulsar cluster lists a broker of their own: it gets no token."""

import asyncio
import json
from pathlib import Path

import pytest

from broker_ctl.store import paths
from broker_ctl.store.interface import CreateMode
from tests.support.clusters.attached import attached_run
from tests.support.clusters.foreign_cluster import MODULAR, ForeignCluster, foreign_cluster
from tests.support.security.listener import HOST, listening
from tests.support.time.waiting import eventually

SECRET = "PULSAR-SUPER-USER-TOKEN"
WATCHED_S = 2.0


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(SECRET, encoding="utf-8")
    file.chmod(0o600)
    return file


async def list_broker(cluster: ForeignCluster, broker_id: str, url: str) -> None:
    """Register a broker as Pulsar's modular load manager does."""
    report = {
        "webServiceUrl": url,
        "loadManagerClassName": MODULAR,
        "loadReportType": "LocalBrokerData",
    }
    path, data = paths.load_report(broker_id), json.dumps(report).encode()
    await cluster.store.create(path, data, CreateMode.EPHEMERAL)


@pytest.mark.parametrize("is_named_alike", [False, True])
async def test_a_broker_that_a_stranger_lists_gets_no_token(
    token_file: Path, is_named_alike: bool
) -> None:
    async with foreign_cluster(2, 4) as cluster, listening() as listener:
        name = f"127.0.0.1:{listener.port}" if is_named_alike else listener.broker_id
        await list_broker(cluster, name, listener.url)
        settings = ("pulsarAct=true", f"pulsarTokenFile={token_file}")
        async with attached_run(cluster, *settings) as run:
            await eventually(lambda: run.is_leading, what="it leads")
            await asyncio.sleep(WATCHED_S)
            why = await run.attached.cluster_balancer.blocked_reason()
            refused = run.attached.foundation.addresses.refused
        assert (listener.requests, listener.secrets) == ([], [])
        assert refused["pulsar-registry"] >= 1
        assert listener.url in why
        assert "is not at a host in pulsarAdminAllowedHosts (127.0.0.1)" in why
        # Nothing is moved: the balancer of a broker that is not asked may be on.
        assert cluster.asked == []


async def test_a_host_that_the_operator_lists_is_asked(token_file: Path) -> None:
    async with foreign_cluster(2, 4) as cluster, listening() as listener:
        await list_broker(cluster, listener.broker_id, listener.url)
        settings = (
            "pulsarAct=true",
            f"pulsarTokenFile={token_file}",
            f"pulsarAdminAllowedHosts=127.0.0.1,{HOST}",
        )
        async with attached_run(cluster, *settings):
            await eventually(lambda: len(listener.secrets) > 0, what="a request")
        assert listener.secrets[0] == f"Authorization: Bearer {SECRET}"
