"""Mutual TLS on the replication port: the certificate of each broker proves its number.

The certificate of broker 7 of the cluster ``prod`` has the URI ``spiffe://prod/replica-broker/7``
among its subject alternative names (SPIFFE ID, section 2 of the SPIFFE standard). A client that is
not a broker needs any certificate of the same authority.
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from broker_ctl.security.certificates.spiffe import replica_broker_uri


@dataclass(frozen=True, slots=True)
class ReplicationTls:
    """TLS of both directions.

    Attributes:
        cluster: trust domain; a certificate of another cluster proves nothing.
        serving: requires and verifies a certificate of each client.
        calling: verifies that of the server, and presents the own one.
    """

    cluster: str
    serving: ssl.SSLContext
    calling: ssl.SSLContext

    def brokers_of(self, peer: ssl.SSLObject | None) -> frozenset[int]:
        """The numbers of brokers that the verified certificate of a peer proves."""
        names = (peer.getpeercert() or {}).get("subjectAltName", ()) if peer is not None else ()
        return frozenset(_numbers(self.cluster, names))


def _numbers(cluster: str, names: Iterable[Any]) -> Iterable[int]:
    prefix = replica_broker_uri(cluster, 0)[:-1]
    for kind, value in names:
        number = value.removeprefix(prefix)
        if kind == "URI" and value.startswith(prefix) and number.isascii() and number.isdigit():
            yield int(number)
