"""Certificates that a list of their authority names, in both directions, without a restart."""

import datetime as dt
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.secrets import check_secrets, handshake_error
from broker_ctl.daemon.wiring.keys import peer_tls, server_tls
from broker_ctl.daemon.wiring.tls import server_context
from broker_ctl.errors import SettingsError
from broker_ctl.security.rotation.reloadable import expires_at_s
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.security.authority import Authority, Issued
from tests.support.security.replaced_files import replace

HOST = "127.0.0.1"
DAY = dt.timedelta(days=1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def own_of(authority: Authority) -> Issued:
    return authority.issue("own", hosts=(HOST,))


def settings_of(authority: Authority, own: Issued) -> Settings:
    values = {
        "metadataStoreUrl": "zk:127.0.0.1:1",
        "webServicePortTls": "8443",
        "tlsTrustCertsFilePath": authority.path,
        "tlsRequireTrustedClientCertOnConnect": "true",
        **own.served,
        **own.trusted,
        **own.shown,
        "tlsRevocationListFile": authority.lists,
    }
    return load(None, {}, [f"{name}={value}" for name, value in values.items()])


def client_of(own: Issued) -> ssl.SSLContext:
    client = ssl.create_default_context(cafile=own.authority)
    client.load_cert_chain(own.certificate, own.key)
    return client


def server_of(own: Issued) -> ssl.SSLContext:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(own.certificate, own.key)
    return server


@pytest.fixture(params=["a client", "a broker that is called"])
def meet(
    request: pytest.FixtureRequest, authority: Authority
) -> tuple[Path, Callable[[], str], Reloader]:
    """The certificate of another one, how a handshake with it ends, and what reloads."""
    own, other = own_of(authority), authority.issue("other", hosts=(HOST,))
    authority.revoke()
    reloader, settings = Reloader(), settings_of(authority, own)
    if request.param == "a client":
        server = server_tls(settings, reloader)
        assert server is not None
        client = client_of(other)
        return other.certificate, lambda: handshake_error(server, client, HOST), reloader
    calling = peer_tls(settings, reloader)
    assert calling is not None
    called = server_of(other)
    return other.certificate, lambda: handshake_error(called, calling, HOST), reloader


async def test_a_certificate_is_refused_once_the_list_names_it_and_others_are_not(
    meet: tuple[Path, Callable[[], str], Reloader], authority: Authority
) -> None:
    certificate, handshake, reloader = meet
    assert handshake() == ""
    authority.revoke(authority.issue("a third").certificate)
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
    settings = settings_of(authority, own_of(authority))
    with pytest.raises(SettingsError, match="tlsRevocationListFile"):
        server_context(settings)
    authority.lists.write_bytes(authority.path.read_bytes())
    with pytest.raises(SettingsError, match="holds no revocation list"):
        server_context(settings)


def test_the_check_of_secrets_says_when_a_list_ends(authority: Authority) -> None:
    settings = settings_of(authority, own_of(authority))
    for ends, errors in ((DAY, 0), (-DAY, 1)):
        authority.revoke(ends=ends)
        found = {one.key: one for one in check_secrets(settings, SystemClock(), 30)}
        one = found["tlsRevocationListFile"]
        assert len([text for text in one.errors if "has ended" in text]) == errors
        assert bool(one.warnings) is not bool(errors)
