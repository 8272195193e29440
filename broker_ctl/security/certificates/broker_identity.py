"""The ids of brokers in the certificates of one cluster."""

from typing import Final

from broker_ctl.errors import InvalidName
from broker_ctl.security.certificates.peer_certificate import PeerCertificate
from broker_ctl.security.certificates.spiffe import broker_id_in, broker_uri, trust_domain_uri


class BrokerIdentity:
    """Judges what certificates say of brokers; those of another cluster say nothing.

    Raises:
        InvalidName: the name of the cluster cannot be that of a trust domain.
    """

    def __init__(self, cluster: str) -> None:
        trust_domain_uri(cluster)
        self._cluster: Final = cluster

    def id_in(self, certificate: PeerCertificate) -> str:
        """The id of a broker of the cluster that a certificate proves; empty: it proves none.

        Of several ids, none.
        """
        found = [broker_id_in(self._cluster, uri) for uri in certificate.spiffe_ids]
        ids = [broker_id for broker_id in found if broker_id]
        return ids[0] if len(ids) == 1 else ""

    def is_of(self, certificate: PeerCertificate, broker_id: str) -> bool:
        """Whether a certificate proves this id of a broker."""
        try:
            return broker_uri(self._cluster, broker_id) in certificate.spiffe_ids
        except InvalidName:
            # A name from ZooKeeper that no certificate can have.
            return False
