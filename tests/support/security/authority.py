"""An authority whose certificates prove who brokers and clients are."""

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from broker_ctl.clock import SystemClock
from broker_ctl.lab.replication.tcp import ReplicationTls

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Files:
    """A certificate with its key, and the authority's."""

    authority: Path
    certificate: Path
    key: Path

    def tls(self, cluster: str) -> ReplicationTls:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        calling.check_hostname = False
        for context in (serving, calling):
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return ReplicationTls(cluster, serving, calling)

    @property
    def settings(self) -> tuple[str, ...]:
        return (
            f"tlsCertificateFilePath={self.certificate}",
            f"tlsKeyFilePath={self.key}",
            f"tlsTrustCertsFilePath={self.authority}",
        )


class Authority:
    """Issues certificates for URIs into a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, directory.name)])
        self.path = directory / "ca.pem"
        own = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.path.write_bytes(_pem(own.sign(self._key, hashes.SHA256())))

    def issue(
        self,
        name: str,
        *uris: str,
        subject: str | None = None,
        ends: dt.timedelta = _DAY,
    ) -> Files:
        """The files of a certificate with these URIs, and no host.

        Args:
            subject: its distinguished name, as RFC 4514 writes it; None: the name alone.
            ends: how long it lasts from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        common = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        named = common if subject is None else x509.Name.from_rfc4514_string(subject)
        builder = self._builder(named, key, ends)
        if uris:
            names = [x509.UniformResourceIdentifier(uri) for uri in uris]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        found = Files(self.path, self._directory / f"{name}.pem", self._directory / f"{name}.key")
        found.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        found.key.touch(mode=0o600)
        found.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return found

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        ends: dt.timedelta = _DAY,
    ) -> x509.CertificateBuilder:
        now = dt.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + ends)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
