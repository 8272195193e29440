"""The authority of a cluster, as ``broker-ctl ca`` makes it, and certificates of it as files."""

import datetime as dt
from pathlib import Path

from broker_ctl.clock import SystemClock
from broker_ctl.security.certificates.authority import CertificateAuthority, Holder
from broker_ctl.security.certificates.peer_certificate import broker_uri
from tests.support.http.certificate_authority import LOOPBACK, Issued

_DAYS = 2


def _now() -> dt.datetime:
    return dt.datetime.fromtimestamp(SystemClock().wall_ms() // 1000, dt.UTC)


class ClusterAuthority:
    """Issues into a directory of its own."""

    def __init__(self, directory: Path, cluster: str) -> None:
        directory.mkdir()
        self._directory = directory
        self._made = CertificateAuthority.create(cluster, _now(), _DAYS + 1)
        self.path = directory / "ca.pem"
        self.path.write_bytes(self._made.certificate)

    def broker(self, name: str, broker_id: str, *hosts: str, cluster: str = "") -> Issued:
        """The files of a broker's certificate, which names loopback unless other hosts are given.

        ``cluster``: of an authority that several clusters trust.
        """
        uri = broker_uri(cluster or self._made.cluster, broker_id)
        return self._issue(name, Holder(hosts=hosts or (LOOPBACK,), uris=(uri,)))

    def client(self, role: str) -> Issued:
        """The files of a client's certificate."""
        return self._issue(role, Holder(common_name=role))

    def _issue(self, name: str, holder: Holder) -> Issued:
        certificate, key = self._made.issue(holder, _now(), _DAYS)
        found = Issued(self.path, self._directory / f"{name}.pem", self._directory / f"{name}.key")
        found.certificate.write_bytes(certificate)
        found.key.touch(mode=0o600)
        found.key.write_bytes(key)
        return found
