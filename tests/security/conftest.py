"""An attacker at ZooKeeper."""

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.support.zookeeper.ensemble import SharedEnsemble


@pytest.fixture
def attacker(zookeeper: SharedEnsemble, chroot: str) -> Iterator[KazooClient]:
    """An anonymous client, in the chroot of the cluster."""
    client = KazooClient(zookeeper.connect_string + chroot)
    client.start()
    yield client
    client.stop()
    client.close()
