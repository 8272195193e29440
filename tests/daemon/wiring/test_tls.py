"""Certificates and keys as files: what a daemon makes of them, and what is wrong with them."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from broker_ctl.daemon.wiring.tls import peer_context, server_context
from broker_ctl.errors import SettingsError
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.security.authority import Authority, Issued, issue

PASSPHRASE = b"nobody knows"
# A server that refuses a handshake just ends it.
REFUSED = (OSError, asyncio.IncompleteReadError)


@pytest.fixture
def files(tmp_path: Path) -> Issued:
    return issue(tmp_path / "ours")


def served(files: Issued, **values: str) -> dict[str, str]:
    return {"webServicePortTls": "8443", **files.served, **values}


def settings(values: Mapping[str, object]) -> Settings:
    return load(None, {}, [f"{key}={value}" for key, value in values.items()])


async def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """The version that is spoken."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    listening = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        try:
            # Whether a client's certificate was taken shows only with the first answer.
            await reader.readexactly(5)
            version: str | None = writer.get_extra_info("ssl_object").version()
            return version
        finally:
            writer.close()


async def test_a_client_that_trusts_the_authority_is_served(files: Issued) -> None:
    server = server_context(settings(served(files)))
    client = peer_context(settings(files.trusted))
    assert server is not None
    assert client is not None
    assert await shake_hands(server, client) == "TLSv1.3"


async def test_a_client_refuses_another_authority_and_another_host(
    files: Issued, tmp_path: Path
) -> None:
    server = server_context(settings(served(files)))
    stranger = issue(tmp_path / "strangers")
    client = peer_context(settings(stranger.trusted))
    assert server is not None
    assert client is not None
    with pytest.raises(ssl.SSLCertVerificationError, match="issuer"):
        await shake_hands(server, client)
    elsewhere = issue(tmp_path / "elsewhere", "10.0.0.1")
    server = server_context(settings(served(elsewhere)))
    client = peer_context(settings(elsewhere.trusted))
    assert server is not None
    assert client is not None
    with pytest.raises(ssl.SSLCertVerificationError, match=r"127\.0\.0\.1"):
        await shake_hands(server, client)


@pytest.mark.parametrize("is_required", [True, False])
async def test_a_clients_certificate_is_wanted_where_it_is_required(
    files: Issued, tmp_path: Path, *, is_required: bool
) -> None:
    wanted = served(
        files,
        tlsTrustCertsFilePath=str(files.authority),
        tlsRequireTrustedClientCertOnConnect=str(is_required).lower(),
    )
    server, bare = server_context(settings(wanted)), peer_context(settings(files.trusted))
    known = peer_context(settings(files.trusted | files.shown))
    stranger = peer_context(settings(files.trusted | issue(tmp_path / "strangers").shown))
    assert server is not None
    assert bare is not None
    assert known is not None
    assert stranger is not None
    assert await shake_hands(server, known) == "TLSv1.3"
    with pytest.raises(REFUSED):
        await shake_hands(server, stranger)
    if is_required:
        with pytest.raises(REFUSED):
            await shake_hands(server, bare)
    else:
        assert await shake_hands(server, bare) == "TLSv1.3"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_only_the_versions_that_are_named_are_spoken(files: Issued, version: str) -> None:
    server = server_context(settings(served(files, tlsProtocols=version)))
    client = peer_context(settings(files.trusted))
    assert server is not None
    assert client is not None
    assert await shake_hands(server, client) == version
    other = {"TLSv1.2": ssl.TLSVersion.TLSv1_3, "TLSv1.3": ssl.TLSVersion.TLSv1_2}[version]
    client.minimum_version = client.maximum_version = other
    with pytest.raises(REFUSED):
        await shake_hands(server, client)


def test_a_context_is_made_for_either_tls_port_and_for_no_other(files: Issued) -> None:
    lookups = files.served | {"lookupServicePortTls": "6681"}
    brokers = files.served | {"brokerServicePortTls": "6651"}
    assert server_context(settings(lookups)) is not None
    assert server_context(settings(brokers)) is None
    assert server_context(Settings()) is None
    assert peer_context(Settings()) is None
    # Settings that are read are refused earlier; nothing is ever served in the clear instead.
    with pytest.raises(SettingsError, match="with a TLS port"):
        server_context(Settings().with_values({"webServicePortTls": 8443}, {}))


def encrypted(key: Path) -> bytes:
    """The same key behind a passphrase."""
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    return private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSPHRASE),
    )


def test_a_faulty_file_is_refused_with_its_setting(files: Issued, tmp_path: Path) -> None:
    stranger = issue(tmp_path / "strangers")
    locked, broken = tmp_path / "locked.pem", tmp_path / "broken.pem"
    locked.write_bytes(encrypted(files.key))
    broken.write_text("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n")
    cases = (
        ("tlsCertificateFilePath", tmp_path / "absent", "No such file"),
        ("tlsCertificateFilePath", tmp_path, "Is a directory"),
        ("tlsCertificateFilePath", files.key, "holds no certificate"),
        ("tlsCertificateFilePath", broken, "PEM"),
        ("tlsKeyFilePath", tmp_path / "absent", "No such file"),
        ("tlsKeyFilePath", files.certificate, "holds no private key"),
        ("tlsKeyFilePath", locked, "is encrypted"),
        (
            "tlsKeyFilePath",
            stranger.key,
            f"not the key of tlsCertificateFilePath={files.certificate}",
        ),
        ("tlsTrustCertsFilePath", tmp_path / "absent", "No such file"),
        ("tlsTrustCertsFilePath", files.key, "holds no certificate"),
        ("tlsTrustCertsFilePath", broken, "PEM"),
    )
    for key, path, why in cases:
        with pytest.raises(SettingsError) as refusal:
            server_context(settings(served(files, **{key: str(path)})))
        assert f"{key}={path}" in str(refusal.value)
        assert why in str(refusal.value)
    with pytest.raises(SettingsError, match=r"brokerClientTrustCertsFilePath=.*No such file"):
        peer_context(settings({"brokerClientTrustCertsFilePath": tmp_path / "absent"}))


def between_brokers(files: Issued, served_files: Issued) -> Settings:
    return settings(
        {
            **served(served_files, tlsTrustCertsFilePath=str(files.authority)),
            **files.trusted,
            **files.shown,
            "brokerClientTlsEnabled": "true",
            "clusterName": "prod",
            "advertisedAddress": "127.0.0.1",
        }
    )


def test_a_certificate_that_does_not_prove_the_own_id_to_other_brokers_is_refused(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "ca", "prod")
    own = authority.broker("own", "127.0.0.1:8080")
    good = between_brokers(own, own)
    assert good.broker.broker_id == "127.0.0.1:8080"
    assert server_context(good) is not None
    assert peer_context(good) is not None
    for stranger in (
        authority.broker("other-port", "127.0.0.1:8081"),
        authority.broker("other-cluster", "127.0.0.1:8080", cluster="test"),
        authority.issue("client"),
    ):
        with pytest.raises(SettingsError) as refusal:
            peer_context(between_brokers(stranger, own))
        said = str(refusal.value)
        assert f"brokerClientCertificateFilePath={stranger.certificate}: " in said
        assert "spiffe://prod/broker/127.0.0.1/8080" in said
        with pytest.raises(SettingsError, match="tlsCertificateFilePath="):
            server_context(between_brokers(own, stranger))


def test_a_private_key_that_everybody_can_read_is_warned_of(
    files: Issued, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        server_context(settings(served(files)))
        assert caplog.messages == []
        files.key.chmod(0o644)
        server_context(settings(served(files)))
    (message,) = caplog.messages
    assert f"tlsKeyFilePath={files.key}" in message
    assert "chmod o-r" in message
