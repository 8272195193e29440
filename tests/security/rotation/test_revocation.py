"""Certificates that a list of their authority names, in both directions, without a restart."""

import datetime as dt
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.secrets import check_secrets, handshake_error
from broker_ctl.daemon.wiring.keys import peer_tls, server_tls
from broker_ctl.daemon.wiring.tls import server_context
from broker_ctl.errors import SettingsError
from broker_ctl.security.certificates.authority import CertificateAuthority, Holder
from broker_ctl.security.rotation.reloadable import expires_at_s
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.security.replaced_files import replace

HOST = "127.0.0.1"
DAY = dt.timedelta(days=1)


def now() -> dt.datetime:
    return dt.datetime.fromtimestamp(SystemClock().wall_ms() // 1000, dt.UTC)


class Authority:
    """Issues certificates, and lists of those that are revoked."""

    def __init__(self, directory: Path) -> None:
        self._made = CertificateAuthority.create("east", now(), 3)
        self.directory = directory
        self.certificate = directory / "ca.pem"
        self.lists = directory / "revoked.pem"
        self.certificate.write_bytes(self._made.certificate)
        self.key = serialization.load_pem_private_key(self._made.private_key, None)

    def issue(self, name: str) -> tuple[Path, Path]:
        holder = Holder(common_name=name, hosts=(HOST,))
        certificate, key = self._made.issue(holder, now(), 2)
        paths = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        paths[0].write_bytes(certificate)
        paths[1].touch(mode=0o600)
        paths[1].write_bytes(key)
        return paths

    def revoke(self, *certificates: Path, ends: dt.timedelta = DAY) -> None:
        authority = x509.load_pem_x509_certificate(self._made.certificate)
        lists = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(authority.subject)
            .last_update(now() - 2 * DAY)
            .next_update(now() + ends)
        )
        for path in certificates:
            serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            lists = lists.add_revoked_certificate(entry.revocation_date(now() - DAY).build())
        made = lists.sign(self.key, hashes.SHA256())  # type: ignore[arg-type]  # an EC key
        replace(self.lists, made.public_bytes(serialization.Encoding.PEM))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings_of(authority: Authority, certificate: Path, key: Path) -> Settings:
    values = {
        "metadataStoreUrl": "zk:127.0.0.1:1",
        "webServicePortTls": "8443",
        "tlsCertificateFilePath": certificate,
        "tlsKeyFilePath": key,
        "tlsTrustCertsFilePath": authority.certificate,
        "tlsRequireTrustedClientCertOnConnect": "true",
        "brokerClientTrustCertsFilePath": authority.certificate,
        "brokerClientCertificateFilePath": certificate,
        "brokerClientKeyFilePath": key,
        "tlsRevocationListFile": authority.lists,
    }
    return load(None, {}, [f"{name}={value}" for name, value in values.items()])


def client_of(authority: Authority, certificate: Path, key: Path) -> ssl.SSLContext:
    client = ssl.create_default_context(cafile=authority.certificate)
    client.load_cert_chain(certificate, key)
    return client


def server_of(certificate: Path, key: Path) -> ssl.SSLContext:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server


@pytest.fixture(params=["a client", "a broker that is called"])
def meet(
    request: pytest.FixtureRequest, authority: Authority
) -> tuple[Path, Callable[[], str], Reloader]:
    """The certificate of another one, how a handshake with it ends, and what reloads."""
    own, other = authority.issue("own"), authority.issue("other")
    authority.revoke()
    reloader, settings = Reloader(), settings_of(authority, *own)
    if request.param == "a client":
        server = server_tls(settings, reloader)
        assert server is not None
        client = client_of(authority, *other)
        return other[0], lambda: handshake_error(server, client, HOST), reloader
    calling = peer_tls(settings, reloader)
    assert calling is not None
    called = server_of(*other)
    return other[0], lambda: handshake_error(called, calling, HOST), reloader


async def test_a_certificate_is_refused_once_the_list_names_it_and_others_are_not(
    meet: tuple[Path, Callable[[], str], Reloader], authority: Authority
) -> None:
    certificate, handshake, reloader = meet
    assert handshake() == ""
    authority.revoke(authority.issue("a third")[0])
    await reloader.check()
    assert handshake() == ""
    authority.revoke(certificate)
    await reloader.check()
    assert "revoked" in handshake()
    authority.revoke()
    await reloader.check()
    assert handshake() == ""


async def test_a_list_that_has_ended_refuses_all_and_is_reported(
    meet: tuple[Path, Callable[[], str], Reloader],
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, handshake, reloader = meet
    authority.revoke(ends=-DAY)
    with caplog.at_level(logging.ERROR):
        await reloader.check()
    assert "expired" in handshake()
    assert "tlsRevocationListFile" in caplog.text
    assert "a list has ended" in caplog.text
    (ends_at_s,) = {one.lives[authority.lists].ends_at_s for one in reloader}
    assert ends_at_s == expires_at_s(authority.lists.read_bytes())
    assert ends_at_s < SystemClock().wall_ms() / 1000


async def test_a_file_that_holds_no_list_leaves_the_old_one_in_use(
    meet: tuple[Path, Callable[[], str], Reloader], authority: Authority
) -> None:
    certificate, handshake, reloader = meet
    authority.revoke(certificate)
    await reloader.check()
    replace(authority.lists, b"nothing")
    await reloader.check()
    assert "revoked" in handshake()
    assert {one.is_failing for one in reloader} == {True}


def test_a_start_without_a_list_is_refused(authority: Authority) -> None:
    settings = settings_of(authority, *authority.issue("own"))
    with pytest.raises(SettingsError, match="tlsRevocationListFile"):
        server_context(settings)
    authority.lists.write_bytes(authority.certificate.read_bytes())
    with pytest.raises(SettingsError, match="holds no revocation list"):
        server_context(settings)


def test_the_check_of_secrets_says_when_a_list_ends(authority: Authority) -> None:
    settings = settings_of(authority, *authority.issue("own"))
    for ends, errors in ((DAY, 0), (-DAY, 1)):
        authority.revoke(ends=ends)
        found = {one.key: one for one in check_secrets(settings, SystemClock(), 30)}
        one = found["tlsRevocationListFile"]
        assert len([text for text in one.errors if "has ended" in text]) == errors
        assert bool(one.warnings) is not bool(errors)
