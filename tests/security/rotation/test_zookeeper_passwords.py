"""Passwords for ZooKeeper that change while a daemon lives: what its next connection proves."""

import random
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import StoreCredentials
from broker_ctl.settings.sources import load
from broker_ctl.store.zookeeper import access, wire
from tests.support.security.replaced_files import replace

OLD, NEW, OTHER = b"daemon:old-password", b"daemon:new-password", b"other:new-password"


class Shown:
    """A connection that keeps what it is shown in place of sending it."""

    def __init__(self) -> None:
        self.digest = b""
        self.digests: list[bytes] = []

    async def send_special(self, _: int, body: Any) -> None:
        self.digest = body
        self.digests.append(body)


class Daemon:
    """The credentials of one daemon, with its file."""

    def __init__(self, file: Path, key: str, *overrides: str) -> None:
        self.file = file
        replace(file, OLD)
        self.around = Environment(SystemClock(), random.Random(1))
        settings = load(None, {}, ["metadataStoreUrl=h", f"{key}={file}", *overrides])
        self.credentials = StoreCredentials.newest(settings, self.around.reloader)
        (self.watched,) = self.around.reloader

    async def reload(self, content: bytes) -> None:
        replace(self.file, content)
        await self.around.reloader.check()


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests and SASL are shown as they are."""
    monkeypatch.setattr(wire, "auth_digest", lambda digest: digest)

    async def authenticate(connection: Shown, secret: bytes) -> None:
        await connection.send_special(0, secret)

    monkeypatch.setattr(access, "authenticate", authenticate)


async def proven(daemon: Daemon) -> bytes:
    shown: Any = Shown()
    await daemon.credentials.identity.prove(shown)
    found: bytes = shown.digest
    return found


@pytest.mark.usefixtures("digests")
@pytest.mark.parametrize(
    ("key", "overrides"),
    [
        ("zookeeperSaslDigestFile", ()),
        # Nodes that are open to everybody belong to no password.
        ("zookeeperAuthDigestFile", ("zookeeperSetAcl=false",)),
    ],
)
async def test_the_next_connection_proves_the_new_password(
    key: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    daemon = Daemon(tmp_path / "password", key, *overrides)
    assert await proven(daemon) == OLD
    await daemon.reload(NEW)
    assert await proven(daemon) == NEW


@pytest.mark.usefixtures("digests")
@pytest.mark.parametrize(
    ("key", "content"),
    [("zookeeperSaslDigestFile", OTHER), ("zookeeperAuthDigestFile", NEW)],
)
async def test_an_identity_that_would_lose_its_nodes_is_refused(
    key: str, content: bytes, tmp_path: Path
) -> None:
    daemon = Daemon(tmp_path / "password", key)
    await daemon.reload(content)
    assert await proven(daemon) == OLD
    assert daemon.watched.is_failing
    await daemon.reload(OLD)
    assert not daemon.watched.is_failing


@pytest.mark.usefixtures("digests")
async def test_two_lines_are_both_proven_and_one_of_them_may_go(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "password", "zookeeperAuthDigestFile")
    dropped: list[str] = []
    daemon.credentials.identity.listen(dropped.append)
    await daemon.reload(OLD + b"\n\n" + NEW + b"\n")
    assert await all_proven(daemon) == [OLD, NEW]
    # What exists proves the old one only.
    assert len(dropped) == 1
    await daemon.reload(NEW + b"\n" + OLD)
    await daemon.reload(NEW)
    assert await all_proven(daemon) == [NEW]
    assert len(dropped) == 3
    await daemon.reload(OLD)
    assert await all_proven(daemon) == [NEW]
    assert daemon.watched.is_failing
    assert len(dropped) == 3


@pytest.mark.usefixtures("digests")
async def test_a_new_password_for_sasl_waits_for_the_next_connection(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "password", "zookeeperSaslDigestFile")
    dropped: list[str] = []
    daemon.credentials.identity.listen(dropped.append)
    await daemon.reload(NEW)
    # The servers may not know it yet, and would end the session.
    assert dropped == []
    await daemon.reload(NEW + b"\n" + OTHER)
    assert daemon.watched.is_failing


async def all_proven(daemon: Daemon) -> list[bytes]:
    shown: Any = Shown()
    await daemon.credentials.identity.prove(shown)
    found: list[bytes] = shown.digests
    return found
