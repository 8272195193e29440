"""A client of ZooKeeper that is not broker-ctl's, and has no identity."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient


@contextmanager
def anonymous_client(address: str) -> Iterator[KazooClient]:
    """One with a session; ``address`` may end with a chroot."""
    client = KazooClient(address)
    client.start()
    yield client
    client.stop()
    client.close()
