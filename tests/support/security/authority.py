"""Authorities that live as long as a test, with the certificates of brokers and clients as files.

The authority is trustme's; a certificate is signed here, since trustme writes no URIs.
"""

import datetime as dt
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker_ctl.clock import SystemClock
from broker_ctl.lab.replication.tcp import ReplicationTls
from broker_ctl.security.certificates.peer_certificate import broker_uri
from tests.support.security.replaced_files import replace

LOOPBACK = "127.0.0.1"
_DAY = dt.timedelta(days=1)


def _now() -> dt.datetime:
    return dt.datetime.fromtimestamp(SystemClock().wall_ms() // 1000, dt.UTC)


@dataclass(frozen=True)
class Issued:
    """An authority, and one certificate of it with its key."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def served(self) -> dict[str, str]:
        """Settings by which this certificate is shown to clients."""
        return {"tlsCertificateFilePath": str(self.certificate), "tlsKeyFilePath": str(self.key)}

    @property
    def trusted(self) -> dict[str, str]:
        """Settings by which other brokers are checked against the authority."""
        return {"brokerClientTrustCertsFilePath": str(self.authority)}

    @property
    def shown(self) -> dict[str, str]:
        """Settings by which this certificate is shown to other brokers."""
        return {
            "brokerClientCertificateFilePath": str(self.certificate),
            "brokerClientKeyFilePath": str(self.key),
        }

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of a server that knows its clients by certificates of the authority."""
        served = {**self.served, "tlsTrustCertsFilePath": str(self.authority)}
        return tuple(f"{key}={value}" for key, value in served.items())

    def tls(self, cluster: str) -> ReplicationTls:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        calling.check_hostname = False
        for context in (serving, calling):
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return ReplicationTls(cluster, serving, calling)


class Authority:
    """Issues certificates, and lists of those that are revoked, into a directory of its own."""

    def __init__(self, directory: Path, cluster: str = "prod") -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._cluster = cluster
        made = trustme.CA(organization_name=cluster)
        key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(made.cert_pem.bytes())
        self.path = directory / "ca.pem"
        self.lists = directory / "revoked.pem"
        self.path.write_bytes(made.cert_pem.bytes())

    def broker(self, name: str, broker_id: str, *hosts: str, cluster: str = "") -> Issued:
        """The files of a broker's certificate, which names loopback unless other hosts are given.

        ``cluster``: of an authority that several clusters trust.
        """
        uri = broker_uri(cluster or self._cluster, broker_id)
        return self.issue(name, uri, hosts=hosts or (LOOPBACK,))

    def issue(
        self,
        name: str,
        *uris: str,
        hosts: tuple[str, ...] = (),
        subject: str | None = None,
        ends: dt.timedelta = 2 * _DAY,
    ) -> Issued:
        """The files of a certificate with these URIs and hosts.

        Args:
            name: of the files, and its common name.
            subject: its distinguished name, as RFC 4514 writes it; None: the common name alone.
            ends: how long it lasts from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        common = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own, now = key.public_key(), _now()
        builder = (
            x509.CertificateBuilder()
            .subject_name(common if subject is None else x509.Name.from_rfc4514_string(subject))
            .issuer_name(self._certificate.subject)
            .public_key(own)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + ends)
        )
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        for extension in (
            x509.BasicConstraints(ca=False, path_length=None),
            x509.ExtendedKeyUsage(both),
            x509.SubjectKeyIdentifier.from_public_key(own),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        ):
            builder = builder.add_extension(extension, critical=False)
        names = [*map(_host, hosts), *map(x509.UniformResourceIdentifier, uris)]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        files = Issued(self.path, self._directory / f"{name}.pem", self._directory / f"{name}.key")
        signed = builder.sign(self._key, hashes.SHA256())
        files.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        files.key.touch(mode=0o600)
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def revoke(self, *certificates: Path, ends: dt.timedelta = _DAY) -> None:
        """Replace the list by one of these certificates."""
        lists = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(_now() - 2 * _DAY)
            .next_update(_now() + ends)
        )
        for path in certificates:
            serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            lists = lists.add_revoked_certificate(entry.revocation_date(_now() - _DAY).build())
        made = lists.sign(self._key, hashes.SHA256())
        replace(self.lists, made.public_bytes(serialization.Encoding.PEM))


def issue(directory: Path, name: str = LOOPBACK) -> Issued:
    """A new authority, and a certificate for a host, which serves a client too."""
    return Authority(directory).issue("own", hosts=(name,))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
