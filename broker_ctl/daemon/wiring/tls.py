"""TLS contexts from certificates and keys in files; every error names setting and file."""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.clock import SystemClock
from broker_ctl.errors import SettingsError
from broker_ctl.security.certificates.peer_certificate import (
    BrokerIdentity,
    PeerCertificate,
    ProvingConnection,
    broker_uri,
    restrict,
)
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.security.rotation.reloadable import expires_at_s
from broker_ctl.settings.conditions import BROKER_CERTIFICATES
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.tls import TlsProtocol

log = logging.getLogger(__name__)

_VERSIONS: Final = {
    TlsProtocol.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsProtocol.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_REVOCATIONS: Final = b"-----BEGIN X509 CRL-----"
_PRIVATE_KEY: Final = b"PRIVATE KEY-----"
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")
_MISMATCH: Final = "KEY_VALUES_MISMATCH"


@dataclass(frozen=True, slots=True)
class PemFile:
    """A file, with the setting or option that names it."""

    key: str
    path: Path

    def __str__(self) -> str:
        return f"{self.key}={self.path}"

    def read(self) -> bytes:
        """The contents, which no error shows.

        Raises:
            SettingsError: it cannot be read, or others can write it.
        """
        return self._read(None)

    def read_secret(self) -> bytes:
        """The contents, with a warning if others can read them.

        Raises:
            SettingsError: as `read`.
        """
        return self._read(lambda text: log.warning("%s: %s", self, text))

    def _read(self, warn: Callable[[str], None] | None) -> bytes:
        try:
            return read_guarded(self.path, warn)
        except OSError as error:
            raise SettingsError(f"{self}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key."""

    certificate: PemFile
    private_key: PemFile

    def load_into(self, context: ssl.SSLContext) -> None:
        """Present this certificate in every handshake.

        Raises:
            SettingsError: a file that cannot be read, or does not hold the expected PEM.
        """
        if _CERTIFICATE not in self.certificate.read():
            raise SettingsError(f"{self.certificate}: holds no certificate in PEM form")
        secret = self.private_key.read_secret()
        if _PRIVATE_KEY not in secret:
            raise SettingsError(f"{self.private_key}: holds no private key in PEM form")
        if any(mark in secret for mark in _ENCRYPTED):
            raise SettingsError(
                f"{self.private_key}: is encrypted; only keys without a password work"
            )
        try:
            # Without a password callback, OpenSSL would prompt on the terminal.
            context.load_cert_chain(self.certificate.path, self.private_key.path, password="")
        except ssl.SSLError as error:
            if error.reason == _MISMATCH:
                raise SettingsError(
                    f"{self.private_key}: is not the key of {self.certificate}"
                ) from error
            raise SettingsError(f"{self.certificate}, {self.private_key}: {error}") from error


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """The context of all TLS ports; None without any.

    Raises:
        SettingsError: a file that cannot be read, or does not hold the expected PEM.
    """
    broker, tls = settings.broker, settings.tls
    own = _pair(
        _file("tlsCertificateFilePath", tls.certificate_file),
        _file("tlsKeyFilePath", tls.key_file),
    )
    if (broker.web_service_port_tls or broker.lookup_service_port_tls) is None:
        return None
    if own is None:
        raise SettingsError("tlsCertificateFilePath, tlsKeyFilePath: not set, with a TLS port")
    context = _serving(settings, own)
    _require_own_id(settings, own)
    authorities = _file("tlsTrustCertsFilePath", tls.trust_certs_file)
    if authorities is not None:
        _trust(context, authorities)
        _revoke(context, settings)
        # A presented certificate is verified in either case.
        context.verify_mode = (
            ssl.CERT_REQUIRED if tls.requires_client_certificate else ssl.CERT_OPTIONAL
        )
    return context


def replication_contexts(settings: Settings) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """Contexts of the replication port, to serve and to call; None: it has no TLS.

    Raises:
        SettingsError: a file that cannot be read, or does not hold the expected PEM.
    """
    if not settings.dataplane.simulated_replication_tls_enabled:
        return None
    tls = settings.tls
    own = _pair(
        _file("tlsCertificateFilePath", tls.certificate_file),
        _file("tlsKeyFilePath", tls.key_file),
    )
    authorities = _file("tlsTrustCertsFilePath", tls.trust_certs_file)
    if own is None or authorities is None:
        raise SettingsError(
            "tlsCertificateFilePath, tlsKeyFilePath, tlsTrustCertsFilePath: not all are set, with "
            "simulatedReplicationTlsEnabled=true"
        )
    serving, calling = _serving(settings, own), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate names the number of the broker, and its address may change.
    calling.check_hostname = False
    own.load_into(calling)
    for context in (serving, calling):
        _trust(context, authorities)
        _revoke(context, settings)
        context.verify_mode = ssl.CERT_REQUIRED
    return serving, calling


def peer_context(settings: Settings) -> ssl.SSLContext | None:
    """The context for requests to other brokers; None: system CAs, no client certificate.

    Raises:
        SettingsError: a file that cannot be read, or does not hold the expected PEM.
    """
    tls = settings.tls
    own = _pair(
        _file("brokerClientCertificateFilePath", tls.peers_certificate_file),
        _file("brokerClientKeyFilePath", tls.peers_key_file),
    )
    context = client_context(
        _file("brokerClientTrustCertsFilePath", tls.peers_trust_certs_file), own
    )
    if context is not None and tls.peers_trust_certs_file is not None:
        _revoke(context, settings)
    if context is not None and own is not None and BROKER_CERTIFICATES.holds(settings):
        _require_own_id(settings, own)
        context.sslobject_class = ProvingConnection
    return context


def cluster_context(settings: Settings) -> ssl.SSLContext | None:
    """The context for requests to the balanced Pulsar cluster; as `peer_context`.

    Raises:
        SettingsError: a file that cannot be read, or does not hold the expected PEM.
    """
    pulsar = settings.pulsar
    return client_context(
        _file("pulsarTlsTrustCertsFilePath", pulsar.trust_certs_file),
        _pair(
            _file("pulsarTlsCertificateFilePath", pulsar.certificate_file),
            _file("pulsarTlsKeyFilePath", pulsar.key_file),
        ),
    )


def client_context(authorities: PemFile | None, own: KeyPair | None) -> ssl.SSLContext | None:
    """A context with these CAs and this client certificate; None without either.

    Raises:
        SettingsError: a file that cannot be read, or does not hold the expected PEM.
    """
    if authorities is None and own is None:
        return None
    if authorities is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, authorities)
    if own is not None:
        own.load_into(context)
    return context


def _require_own_id(settings: Settings, own: KeyPair) -> None:
    """Refuse a certificate by which other brokers would take this one for a stranger."""
    if not BROKER_CERTIFICATES.holds(settings):
        return
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    broker = settings.broker
    try:
        first = x509.load_pem_x509_certificates(own.certificate.read())[0]
        found = PeerCertificate.parse(first.public_bytes(serialization.Encoding.DER))
    except ValueError as error:
        raise SettingsError(f"{own.certificate}: {error}") from error
    if not BrokerIdentity(broker.cluster_name).is_of(found, broker.broker_id):
        uri = broker_uri(broker.cluster_name, broker.broker_id)
        raise SettingsError(
            f"{own.certificate}: does not prove the id of this broker to others "
            f"(brokerClientTlsEnabled): it needs {uri} among its alternative names"
        )


def _serving(settings: Settings, own: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[protocol] for protocol in settings.tls.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.tls.ciphers:
        try:
            restrict(context, settings.tls.ciphers)
        except ValueError as error:
            raise SettingsError(f"tlsCiphers: {error}") from error
    own.load_into(context)
    return context


def _file(key: str, path: Path | None) -> PemFile | None:
    return None if path is None else PemFile(key, path)


def _pair(certificate: PemFile | None, private_key: PemFile | None) -> KeyPair | None:
    if certificate is None or private_key is None:
        return None
    return KeyPair(certificate, private_key)


def _trust(context: ssl.SSLContext, authorities: PemFile) -> None:
    if _CERTIFICATE not in authorities.read():
        raise SettingsError(f"{authorities}: holds no certificate in PEM form")
    try:
        context.load_verify_locations(authorities.path)
    except ssl.SSLError as error:
        raise SettingsError(f"{authorities}: {error}") from error


def _revoke(context: ssl.SSLContext, settings: Settings) -> None:
    """Refuse certificates that the list of their authority names, or whose authority has none."""
    lists = _file("tlsRevocationListFile", settings.tls.revocation_list_file)
    if lists is None:
        return
    content = lists.read()
    if _REVOCATIONS not in content:
        raise SettingsError(f"{lists}: holds no revocation list in PEM form")
    try:
        context.load_verify_locations(lists.path)
        ends_at_s = expires_at_s(content)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"{lists}: {error}") from error
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if ends_at_s is not None and ends_at_s <= SystemClock().wall_ms() / 1000:
        log.error(
            "%s: a list has ended: certificates of its authority are refused until the file has a "
            "newer one",
            lists,
        )
