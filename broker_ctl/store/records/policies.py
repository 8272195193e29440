"""A namespace's policies, tenants and clusters, and what they grant (docs: pulsar-hash)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.field_kinds import REPLICATION_CLUSTERS
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Namespace, Ring
from broker_ctl.security.authorization import NamespaceGrants
from broker_ctl.store.records.fields import Fields, without_nulls

# ``auth_policies`` of a namespace: which roles may produce and consume.


def decode_grants(path: str, data: bytes) -> NamespaceGrants:
    """Read the grants in the policies of a namespace; none of one that is being deleted.

    Raises:
        CorruptRecord: they do not fit.
    """
    fields = Fields.of(path, data)
    if fields.flag("deleted", default=False) or fields.values.get("auth_policies") is None:
        return NamespaceGrants()
    policies = fields.child("auth_policies")
    topics = policies.child("destination_auth")
    return NamespaceGrants(
        _permissions(policies.child("namespace_auth")),
        {name: _permissions(topics.child(name)) for name in topics.values},
    )


def _permissions(fields: Fields) -> Mapping[str, frozenset[str]]:
    roles: Mapping[str, Any] = fields.values
    return {role: frozenset(fields.texts(role)) for role in roles if role}


# Clusters, and which of them a namespace lives in (docs: pulsar-http-lookup).


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


# A namespace's policies: where the ring is kept (docs: pulsar-hash).
#
# Those of a whole cluster are in `records.constraints`.


_ONE_BUNDLE: Final = (RING_LOW, RING_HIGH)


def _decode_boundaries(fields: Fields) -> tuple[int, ...] | None:
    if fields.values.get("bundles") is None:
        return None
    bundles = fields.child("bundles")
    try:
        points = tuple(int(text, 16) for text in bundles.texts("boundaries"))
    except ValueError as error:
        raise bundles.corrupt("boundaries", "must be hexadecimal numbers") from error
    grows = all(low < high for low, high in pairwise(points))
    if len(points) < 2 or (points[0], points[-1]) != _ONE_BUNDLE or not grows:
        raise bundles.corrupt("boundaries", "must grow from 0x00000000 to 0xffffffff")
    return points


def _encode_boundaries(boundaries: tuple[int, ...]) -> Mapping[str, Any]:
    return {
        "boundaries": [f"0x{point:08x}" for point in boundaries],
        "numBundles": len(boundaries) - 1,
    }


def other_fields(fields: Fields, known: frozenset[str]) -> Mapping[str, Any]:
    """Fields of other owners, to be written back unchanged."""
    return {name: value for name, value in fields.values.items() if name not in known}


@dataclass(frozen=True, slots=True)
class LocalPolicies:
    """The ring of a namespace, and what else is local to the cluster.

    ``others`` are fields of other owners (``bookieAffinityGroup``, ``migrated``, fields of
    newer releases): a rewrite hands it on untouched.
    """

    boundaries: tuple[int, ...] = _ONE_BUNDLE
    anti_affinity_group: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; without ``bundles`` it is one full bundle.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        known = frozenset({"bundles", "namespaceAntiAffinityGroup"})
        return cls(
            _decode_boundaries(fields) or _ONE_BUNDLE,
            fields.optional_text("namespaceAntiAffinityGroup"),
            other_fields(fields, known),
        )

    def encode(self) -> bytes:
        """The payload."""
        ours = {
            "bundles": _encode_boundaries(self.boundaries),
            "namespaceAntiAffinityGroup": self.anti_affinity_group,
        }
        return encode({**without_nulls(ours), **self.others})

    def ring(self, namespace: Namespace, version: int) -> Ring:
        """The ring; ``version`` is the data version of the node that was read."""
        return Ring(namespace, self.boundaries, version)


@dataclass(frozen=True, slots=True)
class PoliciesRecord:
    """A namespace's policies: the ring, the clusters that it lives in, and what is the brokers'.

    ``boundaries`` is None where the payload has no ``bundles``; ``others`` is handed on untouched.
    """

    boundaries: tuple[int, ...] | None = None
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_deleted(self) -> bool:
        """Whether the namespace is being deleted; it must not be used any more."""
        return self.others.get("deleted") is True

    def marked(self, *, is_deleted: bool) -> Self:
        """The same, about to be deleted or not."""
        return replace(self, others={**self.others, "deleted": is_deleted})

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        fields.texts(REPLICATION_CLUSTERS)
        return cls(_decode_boundaries(fields), other_fields(fields, frozenset({"bundles"})))

    def encode(self) -> bytes:
        """The payload."""
        if self.boundaries is None:
            return encode(self.others)
        return encode({"bundles": _encode_boundaries(self.boundaries), **self.others})

    @property
    def replication_clusters(self) -> tuple[str, ...]:
        """The clusters that it lives in, sorted; empty where the payload names none."""
        return tuple(sorted(self.others.get(REPLICATION_CLUSTERS) or ()))

    def in_clusters(self, names: Iterable[str]) -> "PoliciesRecord":
        """The same namespace in other clusters."""
        return replace(self, others={**self.others, REPLICATION_CLUSTERS: sorted(set(names))})


# Tenants: who administers them, and in which clusters their namespaces may live.


_KNOWN: Final = frozenset({"adminRoles", "allowedClusters"})


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """Pulsar's TenantInfo; ``others`` is handed on untouched."""

    admin_roles: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a node that was only created as a parent is empty.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data or b"{}")
        roles, clusters = fields.texts("adminRoles"), fields.texts("allowedClusters")
        return cls(_named(roles), _sorted(clusters), other_fields(fields, _KNOWN))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From a request's body, the fields of which are of the right kind."""
        roles, clusters = values.get("adminRoles") or (), values.get("allowedClusters") or ()
        others = {name: value for name, value in values.items() if name not in _KNOWN}
        return cls(_named(roles), _sorted(clusters), others)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "adminRoles": list(self.admin_roles),
            "allowedClusters": list(self.allowed_clusters),
            **self.others,
        }

    def encode(self) -> bytes:
        """The payload."""
        return encode(self.to_json())


def _named(roles: Any) -> tuple[str, ...]:
    """Without the empty role, which names nobody: pulsarctl sends it where none was given."""
    return tuple(role for role in _sorted(roles) if role)


def _sorted(names: Any) -> tuple[str, ...]:
    """Sets in Java: in one order here, and each name once."""
    return tuple(sorted(set(names)))


# How many partitions a topic has, as Pulsar's ``PartitionedTopicMetadata``.
#
# Later releases added ``properties``, which clients set, and ``deleted``, which is true while a
# broker deletes the partitions.


# A Java int holds no more.
_MOST: Final = (1 << 31) - 1
_PARTITIONED_TOPICS_KNOWN: Final = frozenset({"partitions"})


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """The number of partitions; ``others`` is handed on untouched."""

    partitions: int
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; 0 partitions are a topic that is not partitioned.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        partitions = fields.integer("partitions", 0)
        if not 0 <= partitions <= _MOST:
            raise fields.corrupt("partitions", f"must be 0 to {_MOST}")
        return cls(partitions, other_fields(fields, _PARTITIONED_TOPICS_KNOWN))

    def encode(self) -> bytes:
        """The payload."""
        return encode({"partitions": self.partitions, **self.others})
