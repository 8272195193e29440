"""Grants that Pulsar stores: admin roles of tenants, and permissions in namespaces and on topics.

Source: ``checkPermission`` in
https://github.com/apache/pulsar/blob/master/pulsar-broker-common/src/main/java/org/apache/pulsar/broker/authorization/PulsarAuthorizationProvider.java
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.model.names import Topic

PRODUCE: Final = "produce"
CONSUME: Final = "consume"
_ACTIONS: Final = frozenset({PRODUCE, CONSUME})
_WILDCARD: Final = "*"
_PARTITION: Final = re.compile(r"-partition-[0-9]+\Z")

# Actions by role.
Permissions = Mapping[str, AbstractSet[str]]


@dataclass(frozen=True, slots=True)
class NamespaceGrants:
    """The ``auth_policies`` of a namespace.

    Attributes:
        namespace: permissions on all its topics.
        topics: permissions by complete name of a topic, or of a partitioned topic.
    """

    namespace: Permissions = field(default_factory=dict, hash=False)
    topics: Mapping[str, Permissions] = field(default_factory=dict, hash=False)

    def allow_topic(self, role: str, topic: Topic, *, is_wildcard: bool) -> bool:
        """Whether a role may look a topic up: it may produce to it, or consume from it."""
        if _has(self.namespace, role, is_wildcard=is_wildcard):
            return True
        if not self.topics:
            return False
        name = str(topic)
        parent = _PARTITION.sub("", name)
        return _has(self.topics.get(name, {}), role, is_wildcard=is_wildcard) or (
            # As in Pulsar, patterns of the partitioned topic are not for its partitions.
            parent != name and _has(self.topics.get(parent, {}), role, is_wildcard=False)
        )

    def allow_list(self, role: str, *, is_wildcard: bool) -> bool:
        """Whether a role may list topics and bundles: it may produce or consume everywhere."""
        return _has(self.namespace, role, is_wildcard=is_wildcard)


@dataclass(frozen=True, slots=True)
class Grants:
    """What is granted at one place: to the admins of a tenant, and in one of its namespaces."""

    admin_roles: frozenset[str] = frozenset()
    namespace: NamespaceGrants = field(default_factory=NamespaceGrants)


def _has(permissions: Permissions, role: str, *, is_wildcard: bool) -> bool:
    """Whether a role may produce or consume; with wildcards also by a prefix or a suffix."""
    if not _ACTIONS.isdisjoint(permissions.get(role, frozenset())):
        return True
    return is_wildcard and any(
        _matches(pattern, role) and not _ACTIONS.isdisjoint(granted)
        for pattern, granted in permissions.items()
    )


def _matches(pattern: str, role: str) -> bool:
    is_prefix = pattern.endswith(_WILDCARD) and role.startswith(pattern[:-1])
    return is_prefix or (pattern.startswith(_WILDCARD) and role.endswith(pattern[1:]))
