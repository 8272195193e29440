"""Tenants: who administers them, and in which clusters their namespaces may live."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.policies import other_fields

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
