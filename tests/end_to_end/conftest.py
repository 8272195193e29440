"""Real daemons on a real ZooKeeper."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from tests.support.time.waiting import PATIENCE_S
from tests.support.zookeeper.ensemble import SharedEnsemble

NewCluster = Callable[..., Daemons]


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as client:
        yield client


@pytest.fixture
async def new_cluster(
    zookeeper: SharedEnsemble, chroot: str, tmp_path: Path
) -> AsyncIterator[NewCluster]:
    """Makes clusters of `broker-ctl run` processes below this test's own chroot."""
    async with AsyncExitStack():

        def make(count: int, **settings: str) -> Daemons:
            url = f"zk:{zookeeper.connect_string}{chroot}"
            return Daemons(tmp_path, count, {"metadataStoreUrl": url, **SETTINGS, **settings})

        yield make
