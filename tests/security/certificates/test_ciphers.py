"""Which ciphers and versions are spoken, by handshakes with clients that offer others."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Final

import pytest

from broker_ctl.daemon.wiring.tls import replication_contexts, server_context
from broker_ctl.errors import SettingsError
from broker_ctl.security.certificates import peer_certificate
from tests.daemon.wiring.test_tls import REFUSED, served, settings, shake_hands
from tests.support.daemon.listening_daemon import TLS_PORTS, listening_daemon
from tests.support.security.authority import Issued, issue

ONE: Final = "ECDHE-ECDSA-AES256-GCM-SHA384"
OTHER: Final = "ECDHE-ECDSA-CHACHA20-POLY1305"
IANA: Final = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
NEWEST: Final = "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"


@pytest.fixture
def files(tmp_path: Path) -> Issued:
    return issue(tmp_path / "ours")


def client(files: Issued, offered: str = "") -> ssl.SSLContext:
    """One that offers this cipher of TLS 1.2 only; empty: everything."""
    context = ssl.create_default_context(cafile=files.authority)
    if offered:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(offered)
    return context


def of_newest(files: Issued) -> ssl.SSLContext:
    context = client(files)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def server(files: Issued, **values: str) -> ssl.SSLContext:
    context = server_context(settings(served(files, **values)))
    assert context is not None
    return context


@pytest.mark.parametrize("name", [ONE, IANA])
async def test_only_the_ciphers_that_are_named_are_spoken(files: Issued, name: str) -> None:
    restricted = server(files, tlsCiphers=name)
    assert await shake_hands(restricted, client(files, ONE)) == "TLSv1.2"
    # A client that can do more gets what there is.
    assert await shake_hands(restricted, client(files)) == "TLSv1.2"
    for stranger in (client(files, OTHER), of_newest(files)):
        with pytest.raises(REFUSED):
            await shake_hands(restricted, stranger)
        await shake_hands(server(files), stranger)


async def test_ciphers_of_the_newest_version_are_spoken_where_all_are_named(files: Issued) -> None:
    newest = server(files, tlsCiphers=NEWEST)
    assert await shake_hands(newest, client(files)) == "TLSv1.3"
    with pytest.raises(REFUSED):
        await shake_hands(newest, client(files, ONE))
    both = server(files, tlsCiphers=f"{NEWEST},{ONE}")
    assert await shake_hands(both, client(files)) == "TLSv1.3"
    assert await shake_hands(both, client(files, ONE)) == "TLSv1.2"
    with pytest.raises(REFUSED):
        await shake_hands(both, client(files, OTHER))


async def test_the_first_one_is_preferred(files: Issued) -> None:
    offered = f"{ONE}:{OTHER}"
    for preferred, last in ((ONE, OTHER), (OTHER, ONE)):
        context = server(files, tlsCiphers=f"{preferred},{last}")
        name = await _spoken(context, client(files, offered))
        assert name == preferred


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("NOPE", "NOPE is not a cipher of OpenSSL"),
        (f"{ONE},NOPE", "NOPE is not a cipher of OpenSSL"),
        # They mean sets of ciphers to OpenSSL.
        ("ALL", "ALL is not a cipher"),
        ("HIGH:!aNULL", "is not a cipher"),
        ("ECDHE-RSA-NULL-SHA", "or a weak one"),
        ("AES128-SHA", "or a weak one"),
        ("TLS_AES_256_GCM_SHA384", "all together, or none of them"),
    ],
)
def test_what_openssl_does_not_know_or_is_weak_is_refused(
    files: Issued, named: str, why: str
) -> None:
    with pytest.raises(SettingsError, match="tlsCiphers: ") as refused:
        server(files, tlsCiphers=named)
    assert why in str(refused.value)


@pytest.mark.parametrize(("version", "named"), [("TLSv1.2", NEWEST), ("TLSv1.3", ONE)])
def test_versions_without_a_cipher_are_a_contradiction(
    files: Issued, version: str, named: str
) -> None:
    with pytest.raises(SettingsError, match="none of them is of a version in tlsProtocols"):
        server(files, tlsProtocols=version, tlsCiphers=named)


async def test_every_tls_port_of_a_daemon_speaks_them_and_no_other(files: Issued) -> None:
    own = [f"{key}={value}" for key, value in files.served.items()]
    async with listening_daemon(*own, f"tlsCiphers={ONE}") as (_, ports):
        for key in TLS_PORTS:
            assert await _greeted(ports[key], client(files, ONE)) == ONE, key
            with pytest.raises(REFUSED):
                await _greeted(ports[key], client(files, OTHER))
            with pytest.raises(REFUSED):
                await _greeted(ports[key], of_newest(files))
    async with listening_daemon(*own, "tlsProtocols=TLSv1.3") as (_, ports):
        for key in TLS_PORTS:
            await _greeted(ports[key], of_newest(files))
            with pytest.raises(REFUSED):
                await _greeted(ports[key], client(files, ONE))


async def test_the_replication_port_speaks_them_and_no_other(files: Issued) -> None:
    own = {
        "simulatedReplicationTlsEnabled": "true",
        "dataPlane": "simulated",
        "brokerId": "1",
        "brokerServicePort": "6650",
        "tlsTrustCertsFilePath": str(files.authority),
    }
    made = replication_contexts(settings(served(files, **own, tlsCiphers=ONE)))
    assert made is not None
    shown = client(files, ONE), client(files, OTHER)
    for one in shown:
        one.load_cert_chain(files.certificate, files.key)
    assert await shake_hands(made[0], shown[0]) == "TLSv1.2"
    with pytest.raises(REFUSED):
        await shake_hands(made[0], shown[1])


def test_names_of_iana_are_those_of_openssl() -> None:
    program = shutil.which("openssl")
    assert program is not None
    shown = subprocess.run(
        [program, "ciphers", "-stdname", "ALL"], capture_output=True, text=True, check=True
    )
    theirs = {line.split()[2]: line.split()[0] for line in shown.stdout.splitlines()}
    ours = [one["name"] for one in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()]
    assert len(ours) > 3
    assert {name: peer_certificate._iana_name(name) for name in ours} == {
        name: theirs[name] for name in ours
    }


async def _spoken(context: ssl.SSLContext, offering: ssl.SSLContext) -> str:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context) as listening:
        return await _greeted(listening.sockets[0].getsockname()[1], offering)


async def _greeted(port: int, offering: ssl.SSLContext) -> str:
    """The cipher of a connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=offering)
    try:
        name: str = writer.get_extra_info("cipher")[0]
        return name
    finally:
        writer.transport.abort()
