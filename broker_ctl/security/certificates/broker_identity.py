"""The ids of brokers in the certificates of one cluster."""

from typing import Final

from broker_ctl.errors import InvalidName
from broker_ctl.security.certificates.peer_certificate import PeerCertificate
from broker_ctl.security.certificates.spiffe import broker_uri, trust_domain_uri


class BrokerIdentity:
    """Judges what certificates say of brokers; those of another cluster say nothing.

    Raises:
        InvalidName: the name of the cluster cannot be that of a trust domain.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster: Final = cluster
        self._prefix: Final = f"{trust_domain_uri(cluster)}/broker/"

    def is_broker(self, certificate: PeerCertificate) -> bool:
        """Whether a certificate is one of a broker of the cluster."""
        return any(uri.startswith(self._prefix) for uri in certificate.spiffe_ids)

    def is_of(self, certificate: PeerCertificate, broker_id: str) -> bool:
        """Whether a certificate proves this id of a broker."""
        try:
            return broker_uri(self._cluster, broker_id) in certificate.spiffe_ids
        except InvalidName:
            # A name from ZooKeeper that no certificate can have.
            return False
