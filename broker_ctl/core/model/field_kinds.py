"""Types of the fields in Pulsar's JSON: Java cannot read a node in which a field has another type.

A field that is not listed belongs to a newer release of Pulsar and is preserved unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

# The clusters that serve a namespace: the only namespace policy that broker-ctl itself uses.
REPLICATION_CLUSTERS: Final = "replication_clusters"
_TEXT: Final = "a text"
_NUMBER: Final = "a whole number"
_FLAG: Final = "true or false"
_OBJECT: Final = "an object"
_TEXTS: Final = "a list of texts"


def _named(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


# Fields of a namespace's policies, except for the bundles, which `Ring` validates.
NAMESPACE_POLICIES: Final[Mapping[str, str]] = {
    **_named(_TEXTS, "replication_clusters allowed_clusters subscription_types_enabled"),
    **_named(
        _OBJECT,
        "auth_policies backlog_quota_map clusterDispatchRate topicDispatchRate"
        " subscriptionDispatchRate replicatorDispatchRate clusterSubscribeRate persistence"
        " autoTopicCreationOverride autoSubscriptionCreationOverride publishMaxMessageRate"
        " latency_stats_sample_rate retention_policies delayed_delivery_policies"
        " inactive_topic_policies offload_policies properties entryFilters",
    ),
    **_named(
        _FLAG,
        "deduplicationEnabled deleted encryption_required is_allow_auto_update_schema"
        " schema_validation_enforced migrated dispatcherPauseOnAckStatePersistentEnabled",
    ),
    **_named(
        _NUMBER,
        "message_ttl_in_seconds subscription_expiration_time_minutes max_producers_per_topic"
        " max_consumers_per_topic max_consumers_per_subscription"
        " max_unacked_messages_per_consumer max_unacked_messages_per_subscription"
        " max_subscriptions_per_topic compaction_threshold offload_threshold"
        " offload_threshold_in_seconds offload_deletion_lag_ms max_topics_per_namespace"
        " deduplicationSnapshotIntervalSeconds",
    ),
    **_named(
        _TEXT,
        "subscription_auth_mode schema_auto_update_compatibility_strategy"
        " schema_compatibility_strategy resource_group_name",
    ),
}
CLUSTER_DATA: Final[Mapping[str, str]] = {
    **_named(
        _TEXT,
        "serviceUrl serviceUrlTls brokerServiceUrl brokerServiceUrlTls proxyServiceUrl"
        " proxyProtocol authenticationPlugin authenticationParameters"
        " brokerClientTlsTrustStoreType brokerClientTlsTrustStore"
        " brokerClientTlsTrustStorePassword brokerClientTlsKeyStoreType brokerClientTlsKeyStore"
        " brokerClientTlsKeyStorePassword brokerClientTrustCertsFilePath"
        " brokerClientCertificateFilePath brokerClientKeyFilePath brokerClientSslFactoryPlugin"
        " brokerClientSslFactoryPluginParams listenerName",
    ),
    **_named(_TEXTS, "peerClusterNames"),
    **_named(
        _FLAG,
        "brokerClientTlsEnabled tlsAllowInsecureConnection brokerClientTlsEnabledWithKeyStore"
        " migrated",
    ),
    **_named(_OBJECT, "migratedClusterUrl"),
}
TENANT_INFO: Final[Mapping[str, str]] = _named(_TEXTS, "adminRoles allowedClusters")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    _TEXT: lambda value: isinstance(value, str),
    _NUMBER: _is_number,
    _FLAG: lambda value: isinstance(value, bool),
    _OBJECT: lambda value: isinstance(value, dict),
    _TEXTS: _are_texts,
}


def misfit(values: Mapping[str, Any], kinds: Mapping[str, str]) -> str | None:
    """What is wrong with the first field of another kind; None where all fit. Null fits all."""
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is not None and value is not None and not _CHECKS[kind](value):
            return f"{name} must be {kind}"
    return None


_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    _TEXT: {"type": ["string", "null"]},
    _NUMBER: {"type": ["integer", "null"]},
    _FLAG: {"type": ["boolean", "null"]},
    _OBJECT: {"type": ["object", "null"]},
    _TEXTS: {"type": ["array", "null"], "items": {"type": "string"}},
}


def schema_of(kinds: Mapping[str, str]) -> Mapping[str, Any]:
    """The JSON schema of an object with fields of these kinds: what `misfit` lets pass."""
    return {
        "type": "object",
        "properties": {name: _SCHEMAS[kind] for name, kind in kinds.items()},
    }
