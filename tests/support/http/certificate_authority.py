"""Certificates of an authority that lives as long as a test, as files."""

from dataclasses import dataclass
from pathlib import Path

import trustme

LOOPBACK = "127.0.0.1"


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


def issue(directory: Path, name: str = LOOPBACK) -> Issued:
    """A new authority, and a certificate for a host, which serves a client too."""
    directory.mkdir()
    files = Issued(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    authority = trustme.CA()
    leaf = authority.issue_cert(name)
    authority.cert_pem.write_to_path(str(files.authority))
    leaf.private_key_pem.write_to_path(str(files.key))
    for blob in leaf.cert_chain_pems:
        blob.write_to_path(str(files.certificate), append=True)
    files.key.chmod(0o600)
    return files
