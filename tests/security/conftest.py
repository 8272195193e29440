"""An attacker at ZooKeeper."""

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.support.zookeeper.anonymous import anonymous_client
from tests.support.zookeeper.ensemble import SharedEnsemble


@pytest.fixture
def attacker(zookeeper: SharedEnsemble, chroot: str) -> Iterator[KazooClient]:
    """An anonymous client, in the chroot of the cluster."""
    with anonymous_client(zookeeper.connect_string + chroot) as client:
        yield client
