"""Each kind of identity against a real server: who may use the nodes that it creates."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha1

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from broker_ctl.errors import AuthFailed
from broker_ctl.store.interface import CreateMode, Delete, SetData
from broker_ctl.store.zookeeper.access import AclEntry, Identity, NodeAccess, answer
from tests.store.zookeeper.conftest import DEFAULTS, OpenStore
from tests.support.zookeeper.anonymous import anonymous_client
from tests.support.zookeeper.secured import SASL, SecuredServer, secured_server

KINDS = ("digest", "sasl", "x509")
DIGEST = b"broker:digest-secret"
# As ZooKeeper writes a digest: the name, and SHA-1 of name and password.
MONITOR = f"monitor:{b64encode(sha1(b'monitor:secret').digest()).decode()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    with secured_server(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture
def stranger(server: SecuredServer) -> Iterator[KazooClient]:
    with anonymous_client(server.plain_address) as client:
        yield client


@pytest.mark.parametrize("kind", KINDS)
async def test_created_nodes_and_their_parents_belong_to_the_identity(
    kind: str, server: SecuredServer, open_store: OpenStore, stranger: KazooClient
) -> None:
    address, options = {
        "digest": (server.plain_address, Identity(digests=[DIGEST])),
        "sasl": (server.plain_address, Identity(sasl=SASL)),
        "x509": (server.tls_address, Identity(has_certificate=True)),
    }[kind]
    monitor = KazooClient(server.plain_address, auth_data=[("digest", "monitor:secret")])
    ours = replace(
        DEFAULTS,
        chroot=f"/{kind}",
        identity=options,
        tls=server.tls() if kind == "x509" else None,
        access=NodeAccess(is_restricted=True, readers=[AclEntry("digest", MONITOR)]),
    )
    store = await open_store(address, ours)
    other = await open_store(address, ours)
    await store.create("/a/b", b"1", make_parents=True)
    await store.create("/a/session", b"", CreateMode.EPHEMERAL)
    await other.multi([SetData("/a/b", b"2"), Delete("/a/session")])
    await asyncio.to_thread(monitor.start)
    try:
        for path in (f"/{kind}", f"/{kind}/a", f"/{kind}/a/b"):
            with pytest.raises(NoAuthError):
                stranger.get(path)
            with pytest.raises(NoAuthError):
                stranger.create(f"{path}/forged")
            await asyncio.to_thread(monitor.get, path)
            with pytest.raises(NoAuthError):
                monitor.set(path, b"")
        with pytest.raises(NoAuthError):
            stranger.delete(f"/{kind}/a/b")
    finally:
        monitor.stop()
        monitor.close()
    # The identity is proven again on each connection of the session.
    session_id = store.session_id
    store.abort_connection()
    await store.sync("/")
    node = await store.get("/a/b")
    assert node is not None
    assert (node.data, store.session_id) == (b"2", session_id)
    await store.create("/a/c", b"")
    with pytest.raises(NoAuthError):
        stranger.get(f"/{kind}/a/c")


@pytest.mark.parametrize("credentials", [b"broker:wrong", b"nobody:sasl-secret"])
async def test_wrong_sasl_credentials_close_the_store(
    credentials: bytes, server: SecuredServer, open_store: OpenStore
) -> None:
    options = replace(DEFAULTS, identity=Identity(sasl=credentials))
    store = await open_store(server.plain_address, options, connected=False)
    with pytest.raises(AuthFailed):
        await store.wait_connected()


def test_the_answer_to_a_challenge_is_that_of_the_example_in_rfc_2831() -> None:
    challenge = (
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,'
        b"charset=utf-8"
    )
    exchange = answer(challenge, b"chris:secret", "OA6MHXh6VqTrRk", uri="imap/elwood.innosoft.com")
    assert b"response=d388dad90d4bbd760a152321f2143af7," in exchange.answer
    assert exchange.expected == "ea40f60335c427b5527b84dbabcdfffd"


@pytest.mark.parametrize(
    "challenge", [b"", b"rspauth=0", b'nonce="a"', b'nonce="a",algorithm=md5', b'nonce="a', b"=,,"]
)
def test_what_is_not_a_challenge_is_not_answered(challenge: bytes) -> None:
    with pytest.raises(AuthFailed):
        answer(challenge, b"user:password", "c")


@pytest.mark.parametrize("text", ["", "sasl", "sasl:", ":monitor", ":", "  :x"])
def test_a_reader_has_a_scheme_and_an_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not scheme:id"):
        AclEntry.parse(text)
    assert AclEntry.parse(" x509:CN=a:b ") == AclEntry("x509", "CN=a:b", 1)
