"""JSON schemas of bodies and answers, by name; those of Pulsar have the names of its classes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.core.model.field_kinds import (
    CLUSTER_DATA,
    NAMESPACE_POLICIES,
    TENANT_INFO,
    schema_of,
)
from broker_ctl.core.model.load import MOST_QUOTA

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number"}
WHOLE: Final[Schema] = {"type": "integer"}
# What has more fields than a client should rely on, or those of another program.
OBJECT: Final[Schema] = {"type": "object"}
_MOST_BROKER: Final = 2**31 - 1
_MOST_REPLICAS: Final = 100
_BROKER_NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": _MOST_BROKER}


def listed(item: Schema, **bounds: int) -> Schema:
    """A list of these."""
    return {"type": "array", "items": item, **bounds}


def by_name(value: Schema) -> Schema:
    """An object with any names and these values."""
    return {"type": "object", "additionalProperties": value}


def or_null(schema: Schema) -> Schema:
    """This or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def record(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """An object with these fields; releases may add others."""
    fields = {"type": "object", "properties": {**required, **optional}}
    return {**fields, "required": [*required]} if required else fields


def ref(name: str) -> Schema:
    """The schema of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def _within(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


# Kafka's rule.
_TOPIC: Final[Schema] = {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"}
_REPLICAS: Final = listed(_BROKER_NUMBER, minItems=1, maxItems=_MOST_REPLICAS)
# Pulsar writes texts, and takes what Jackson makes one of.
_AS_TEXT: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
_PATTERN: Final[Schema] = {"type": "string", "minLength": 1}
_PARTITION: Final[Mapping[str, Schema]] = {"topic": _TOPIC, "partition": _BROKER_NUMBER}
_AUDIT: Final[Mapping[str, Schema]] = {"by": TEXT, "reason": TEXT}
_QUOTA: Final = ("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut", "memory")
_TOPIC_RULES: Final[Mapping[str, Schema]] = {
    "min_isr": {"type": ["integer", "null"], "minimum": 1, "maximum": _MOST_REPLICAS},
    "unclean": {"type": ["boolean", "null"]},
}
_RATE: Final[Schema] = {"type": ["integer", "null"], "minimum": 1, "maximum": 2**63 - 1}
_TIME_MS: Final = _within(0, 253_402_300_799_999)

SCHEMAS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        "Error": record({"error": TEXT, "reason": TEXT}),
        "DryRun": record({"dry_run": FLAG}),
        # Lookups.
        "LookupData": record(
            {"brokerUrl": TEXT, "httpUrl": TEXT, "nativeUrl": TEXT, "brokerUrlSsl": TEXT},
            brokerId=TEXT,
        ),
        "PartitionLeader": record(
            {"partition": WHOLE, "leader": WHOLE, "leader_epoch": WHOLE, "isr": listed(WHOLE)}
        ),
        "PartitionLeaders": record({"topic": TEXT, "partitions": listed(ref("PartitionLeader"))}),
        # Pulsar's administration.
        "TenantInfo": schema_of(TENANT_INFO),
        "ClusterData": schema_of(CLUSTER_DATA),
        "BundlesData": record(
            {"boundaries": listed(TEXT), "numBundles": WHOLE},
        ),
        "Policies": {
            **schema_of(NAMESPACE_POLICIES),
            "description": "The policies of a namespace; bundles is the ring.",
        },
        "Permissions": {**by_name(listed(TEXT)), "description": "What each role may do."},
        "PartitionedTopicMetadata": record({"partitions": WHOLE}, properties=by_name(TEXT)),
        "NamespaceIsolationData": record(
            {
                "namespaces": listed(_PATTERN, minItems=1),
                "primary": listed(_PATTERN, minItems=1),
            },
            # Null is the same as absent, as Jackson reads it.
            secondary=or_null(listed(TEXT)),
            auto_failover_policy=or_null(
                record(
                    {},
                    policy_type={"enum": ["min_available", None]},
                    parameters=or_null(by_name(_AS_TEXT)),
                )
            ),
            unload_scope={"enum": ["all_matching", "none", "changed", None]},
        ),
        "BrokerNamespaceIsolationData": record(
            {"brokerName": TEXT, "primary": FLAG},
            policyName=or_null(TEXT),
            namespaceRegex=or_null(listed(TEXT)),
        ),
        "FailureDomain": record({"brokers": listed(TEXT, minItems=1, maxItems=4_096)}),
        "BrokerInfo": record({"serviceUrl": TEXT}, brokerId=TEXT),
        "ResourceQuota": {
            **record(
                {name: {"type": "number", "minimum": 0, "maximum": MOST_QUOTA} for name in _QUOTA},
                dynamic=FLAG,
            ),
            "additionalProperties": False,
        },
        # Control of the balancer.
        "Audit": record({}, **_AUDIT),
        "Approval": record({}, **_AUDIT, digest=TEXT),
        "DrainTerms": record(
            {}, **_AUDIT, begins_ms=_TIME_MS, ends_ms=_TIME_MS, until_restart=FLAG
        ),
        "Pause": record({"paused": FLAG}, by=TEXT, reason=TEXT, since_ms=WHOLE, was_paused=FLAG),
        "Owner": record(
            {"bundle": TEXT, "owner": or_null(TEXT), "token": or_null(WHOLE), "note": TEXT}
        ),
        "Status": record(
            {"broker": TEXT, "cluster": TEXT, "session": OBJECT, "is_leader": FLAG}
            | {"is_ready": FLAG, "reason": TEXT, "journal": listed(OBJECT)},
            bundles=listed(record({"bundle": TEXT, "state": TEXT, "token": WHOLE})),
        ),
        "Decision": record({"kind": TEXT, "sentence": TEXT}, result=TEXT, reason=TEXT),
        "Cluster": record({"leader": TEXT, "epoch": WHOLE, "brokers": listed(OBJECT)}),
        "RolloutRequest": record(
            {},
            **_AUDIT,
            brokers=listed(TEXT),
            max_unavailable={"enum": ["1", "zone"]},
            canary=TEXT,
            version=TEXT,
            gate_timeout_s=_within(1, 86_400),
            accept_overload=FLAG,
        ),
        "RolloutReport": record(
            {"event": {"enum": ["restart_began", "restarted", "healthy", "failed"]}}, detail=TEXT
        ),
        # Replicated partitions.
        "NewTopic": {
            **record(
                {},
                partitions=_within(1, 10_000),
                replication_factor=_within(1, _MOST_REPLICAS),
                replicas={**by_name(_REPLICAS), "minProperties": 1},
                min_isr=_within(0, _MOST_REPLICAS),
                unclean={"type": ["boolean", "null"]},
            ),
            "oneOf": [{"required": ["partitions"]}, {"required": ["replicas"]}],
        },
        "MorePartitions": record(
            {"partitions": _within(1, _MOST_BROKER)}, replicas=by_name(_REPLICAS)
        ),
        "TopicRules": {**record({}, **_TOPIC_RULES), "minProperties": 1},
        "TopicId": record(
            {},
            topic_id={"type": ["string", "null"], "pattern": "^([0-9a-f]{32}|[a-zA-Z0-9_-]{22})$"},
        ),
        "Spread": record({"topics": listed(_TOPIC, minItems=1), "brokers": _REPLICAS}),
        "Reassignment": record(
            {"partitions": listed(record({**_PARTITION, "replicas": _REPLICAS}), minItems=1)},
            throttle_bytes_per_s=_RATE,
        ),
        "Throttle": record({"throttle_bytes_per_s": _RATE}),
        "Partitions": record({}, partitions=listed(record(_PARTITION))),
        "Election": record(
            {"kind": {"enum": ["preferred", "unclean"]}}, partitions=listed(record(_PARTITION))
        ),
        "ControlledShutdown": record(
            {"broker": _BROKER_NUMBER, "broker_epoch": _within(0, 2**63 - 1)}, force=FLAG
        ),
        "ReplicatedTopic": record({"topic": TEXT, "partitions": listed(OBJECT)}),
        "ReplicatedTopicSummary": record(
            {"topic": TEXT, "partitions": WHOLE, "offline": WHOLE, "under_replicated": WHOLE}
        ),
        "PartitionExplanation": record(
            {
                "topic": TEXT,
                "partition": WHOLE,
                "leader": {"type": "integer"},
                "reasons": listed(TEXT),
                "replicas": listed(OBJECT),
                "changes": listed(OBJECT),
            }
        ),
        "Controller": record({"broker": WHOLE, "epoch": WHOLE, "brokers": listed(OBJECT)}),
        # The data plane.
        "Authority": record({"session_epoch": WHOLE, "remaining_ms": WHOLE}),
    }
)
