"""Clusters, and which of them a namespace lives in (docs: pulsar-http-lookup)."""

from dataclasses import dataclass
from typing import Self

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.store.records.fields import Fields


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """Pulsar's ClusterData, as far as lookups go.

    Attributes:
        peers: clusters that clients may be sent to in its place.
    """

    web_url: str | None = None
    web_url_tls: str | None = None
    native_url: str | None = None
    native_url_tls: str | None = None
    peers: tuple[str, ...] = ()

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a node that was only created as a parent is empty.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data or b"{}")
        return cls(
            fields.optional_text("serviceUrl"),
            fields.optional_text("serviceUrlTls"),
            fields.optional_text("brokerServiceUrl"),
            fields.optional_text("brokerServiceUrlTls"),
            _names(fields, "peerClusterNames"),
        )

    def urls(self, name: str) -> BrokerUrls:
        """The addresses as those of one broker, with the cluster's name as its id."""
        return BrokerUrls(
            name, self.web_url, self.web_url_tls, self.native_url, self.native_url_tls
        )


def replication_clusters(path: str, data: bytes) -> tuple[str, ...]:
    """The clusters that a namespace's policies name, sorted; empty where they name none.

    Raises:
        CorruptRecord: the payload does not fit.
    """
    return _names(Fields.of(path, data), "replication_clusters")


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    """A list that may be absent or null, sorted."""
    return tuple(sorted(fields.texts(name))) if fields.values.get(name) is not None else ()
