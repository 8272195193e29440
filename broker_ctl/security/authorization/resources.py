"""The resources that operations are performed on."""

from enum import StrEnum
from typing import Final, NamedTuple

from broker_ctl.core.model.names import Namespace, Topic


class ResourceKind(StrEnum):
    """Kinds of resources; tenants contain namespaces, and these contain topics."""

    CLUSTER = "cluster"
    BROKER = "broker"
    TENANT = "tenant"
    NAMESPACE = "namespace"
    TOPIC = "topic"


class Resource(NamedTuple):
    """One resource.

    Attributes:
        name: as reasons name it; empty for the cluster, and for a topic, which has its own.
        tenant: that it is, or belongs to; empty: no tenant's.
        namespace: that it is, or belongs to; None: no namespace's.
        topic: None unless it is one.
    """

    kind: ResourceKind
    name: str = ""
    tenant: str = ""
    namespace: Namespace | None = None
    topic: Topic | None = None

    @classmethod
    def of_broker(cls, broker_id: str) -> "Resource":
        """A broker."""
        return cls(ResourceKind.BROKER, broker_id)

    @classmethod
    def of_tenant(cls, tenant: str) -> "Resource":
        """A tenant."""
        return cls(ResourceKind.TENANT, tenant, tenant)

    @classmethod
    def of_namespace(cls, namespace: Namespace) -> "Resource":
        """A namespace."""
        return cls(ResourceKind.NAMESPACE, str(namespace), namespace.tenant, namespace)

    @classmethod
    def of_topic(cls, topic: Topic) -> "Resource":
        """A topic."""
        namespace = topic.namespace
        return cls(ResourceKind.TOPIC, "", namespace.tenant, namespace, topic)

    def __str__(self) -> str:
        name = self.name if self.topic is None else str(self.topic)
        return f"{self.kind} {name}" if name else f"the {self.kind}"


CLUSTER: Final = Resource(ResourceKind.CLUSTER)
