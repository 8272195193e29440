"""Keys of the cluster that are added, moved to the front and removed while daemons live."""

import base64
import random
from pathlib import Path

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.settings.sources import load
from tests.support.daemon.built import seen
from tests.support.security.replaced_files import replace

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
USE = "peer-request"


class Broker:
    """The keys of one daemon, with its file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.install(OLD)
        self.around = Environment(SystemClock(), random.Random(1))
        settings = load(None, {}, ["metadataStoreUrl=h", f"clusterKeyFile={file}"])
        self.foundation = Foundation(settings, self.around)
        keys = self.foundation.cluster_keys
        assert keys is not None
        self.keys, self.kept = keys, keys.kept()

    def install(self, *keys: bytes) -> None:
        lines = (base64.b64encode(key).decode() for key in keys)
        replace(self.file, "\n".join(lines).encode())

    async def reload(self, *keys: bytes) -> None:
        self.install(*keys)
        await self.around.reloader.check()

    def accepts(self, other: "Broker") -> bool:
        return self.keys.verify(USE, b"order", other.keys.sign(USE, b"order"))


@pytest.fixture
def brokers(tmp_path: Path) -> tuple[Broker, Broker]:
    return Broker(tmp_path / "one"), Broker(tmp_path / "two")


async def test_brokers_accept_each_other_at_each_step_of_a_rotation(
    brokers: tuple[Broker, Broker],
) -> None:
    one, two = brokers
    old = one.keys.sign(USE, b"order")
    for keys in ((OLD, NEW), (NEW, OLD), (NEW,)):
        for broker in brokers:
            await broker.reload(*keys)
            assert one.accepts(two)
            assert two.accepts(one)
    assert one.keys.sign(USE, b"order") != old
    assert not two.keys.verify(USE, b"order", old)


async def test_nodes_that_live_keep_their_signature_after_the_removal_of_its_key(
    brokers: tuple[Broker, Broker],
) -> None:
    one, _ = brokers
    written = one.kept.sign("znode", b"registration")
    await one.reload(NEW)
    assert one.kept.verify("znode", b"registration", written)
    assert not one.keys.verify("znode", b"registration", written)
    assert one.kept.verify("znode", b"registration", one.kept.sign("znode", b"registration"))
    assert not one.kept.verify("znode", b"another", written)


async def test_nodes_are_verified_by_the_keys_that_are_kept(
    brokers: tuple[Broker, Broker],
) -> None:
    parts = seen(brokers[0].foundation).values()
    assert ("ZnodeSignatures._keys", "KeptKeys") in parts
