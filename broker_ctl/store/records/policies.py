"""A namespace's policies: where the ring is kept (docs: pulsar-hash).

Those of a whole cluster are in `records.constraints`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.field_kinds import REPLICATION_CLUSTERS
from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.store.records.fields import Fields, without_nulls

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
