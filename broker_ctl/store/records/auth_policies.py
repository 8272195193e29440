"""``auth_policies`` of a namespace: which roles may produce and consume."""

from collections.abc import Mapping
from typing import Any

from broker_ctl.security.authorization.grants import NamespaceGrants
from broker_ctl.store.records.fields import Fields


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
