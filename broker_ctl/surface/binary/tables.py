"""The binary protocol's commands and messages (docs: pulsar-binary-lookup).

Only what a lookup needs is told in full. Of all other commands the type is known, so that they
are refused by name, and which field their request id is, so that the refusal finds its request.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker_ctl.surface.binary.enums import CommandType


class Field(NamedTuple):
    """A field of a message; ``kind`` is a scalar's, ``enum``, or the name of a message."""

    name: str
    number: int
    kind: str
    label: str = "optional"
    default: str = ""


MESSAGES: Final[Mapping[str, tuple[Field, ...]]] = {
    "CommandConnect": (
        Field("client_version", 1, "string", "required"),
        Field("auth_method", 2, "enum"),
        Field("auth_data", 3, "bytes"),
        Field("protocol_version", 4, "int32", default="0"),
        Field("auth_method_name", 5, "string"),
        Field("proxy_to_broker_url", 6, "string"),
        Field("original_principal", 7, "string"),
        Field("original_auth_data", 8, "string"),
        Field("original_auth_method", 9, "string"),
        Field("feature_flags", 10, "FeatureFlags"),
        Field("proxy_version", 11, "string"),
    ),
    "FeatureFlags": (
        Field("supports_auth_refresh", 1, "bool", default="false"),
        Field("supports_broker_entry_metadata", 2, "bool", default="false"),
        Field("supports_partial_producer", 3, "bool", default="false"),
        Field("supports_topic_watchers", 4, "bool", default="false"),
        Field(
            "supports_get_partitioned_metadata_without_auto_creation", 5, "bool", default="false"
        ),
    ),
    "CommandConnected": (
        Field("server_version", 1, "string", "required"),
        Field("protocol_version", 2, "int32", default="0"),
        Field("max_message_size", 3, "int32"),
        Field("feature_flags", 4, "FeatureFlags"),
    ),
    "CommandError": (
        Field("request_id", 1, "uint64", "required"),
        Field("error", 2, "enum", "required"),
        Field("message", 3, "string", "required"),
    ),
    "CommandPing": (),
    "CommandPong": (),
    "CommandPartitionedTopicMetadata": (
        Field("topic", 1, "string", "required"),
        Field("request_id", 2, "uint64", "required"),
        Field("original_principal", 3, "string"),
        Field("original_auth_data", 4, "string"),
        Field("original_auth_method", 5, "string"),
        Field("metadata_auto_creation_enabled", 6, "bool", default="true"),
    ),
    "CommandPartitionedTopicMetadataResponse": (
        Field("partitions", 1, "uint32"),
        Field("request_id", 2, "uint64", "required"),
        Field("response", 3, "enum"),
        Field("error", 4, "enum"),
        Field("message", 5, "string"),
    ),
    "CommandLookupTopic": (
        Field("topic", 1, "string", "required"),
        Field("request_id", 2, "uint64", "required"),
        Field("authoritative", 3, "bool", default="false"),
        Field("original_principal", 4, "string"),
        Field("original_auth_data", 5, "string"),
        Field("original_auth_method", 6, "string"),
        Field("advertised_listener_name", 7, "string"),
        Field("properties", 8, "KeyValue", "repeated"),
    ),
    "KeyValue": (
        Field("key", 1, "string", "required"),
        Field("value", 2, "string", "required"),
    ),
    "CommandLookupTopicResponse": (
        Field("brokerServiceUrl", 1, "string"),
        Field("brokerServiceUrlTls", 2, "string"),
        Field("response", 3, "enum"),
        Field("request_id", 4, "uint64", "required"),
        Field("authoritative", 5, "bool", default="false"),
        Field("error", 6, "enum"),
        Field("message", 7, "string"),
        Field("proxy_through_service_url", 8, "bool", default="false"),
    ),
    "CommandGetTopicsOfNamespace": (
        Field("request_id", 1, "uint64", "required"),
        Field("namespace", 2, "string", "required"),
        Field("mode", 3, "enum", default="0"),
        Field("topics_pattern", 4, "string"),
        Field("topics_hash", 5, "string"),
        Field("properties", 6, "KeyValue", "repeated"),
    ),
    "CommandGetTopicsOfNamespaceResponse": (
        Field("request_id", 1, "uint64", "required"),
        Field("topics", 2, "string", "repeated"),
        Field("filtered", 3, "bool", default="false"),
        Field("topics_hash", 4, "string"),
        Field("changed", 5, "bool", default="true"),
    ),
    "CommandGetSchemaResponse": (
        Field("request_id", 1, "uint64", "required"),
        Field("error_code", 2, "enum"),
        Field("error_message", 3, "string"),
    ),
}

# What a command is called in BaseCommand, and its message.
COMMANDS: Final[Mapping[CommandType, tuple[str, str]]] = {
    CommandType.CONNECT: ("connect", "CommandConnect"),
    CommandType.CONNECTED: ("connected", "CommandConnected"),
    CommandType.ERROR: ("error", "CommandError"),
    CommandType.PING: ("ping", "CommandPing"),
    CommandType.PONG: ("pong", "CommandPong"),
    CommandType.PARTITIONED_METADATA: ("partitionMetadata", "CommandPartitionedTopicMetadata"),
    CommandType.PARTITIONED_METADATA_RESPONSE: (
        "partitionMetadataResponse",
        "CommandPartitionedTopicMetadataResponse",
    ),
    CommandType.LOOKUP: ("lookupTopic", "CommandLookupTopic"),
    CommandType.LOOKUP_RESPONSE: ("lookupTopicResponse", "CommandLookupTopicResponse"),
    CommandType.GET_TOPICS_OF_NAMESPACE: ("getTopicsOfNamespace", "CommandGetTopicsOfNamespace"),
    CommandType.GET_TOPICS_OF_NAMESPACE_RESPONSE: (
        "getTopicsOfNamespaceResponse",
        "CommandGetTopicsOfNamespaceResponse",
    ),
    CommandType.GET_SCHEMA_RESPONSE: ("getSchemaResponse", "CommandGetSchemaResponse"),
}

# Requests that are not served, and which of their fields the request id is. Others have none.
REQUEST_IDS: Final[Mapping[CommandType, int]] = {
    CommandType.SUBSCRIBE: 5,
    CommandType.PRODUCER: 3,
    CommandType.ACK: 8,
    CommandType.UNSUBSCRIBE: 2,
    CommandType.CLOSE_PRODUCER: 2,
    CommandType.CLOSE_CONSUMER: 2,
    CommandType.CONSUMER_STATS: 1,
    CommandType.SEEK: 2,
    CommandType.GET_LAST_MESSAGE_ID: 2,
    CommandType.GET_SCHEMA: 1,
    CommandType.GET_OR_CREATE_SCHEMA: 1,
    CommandType.NEW_TXN: 1,
    CommandType.ADD_PARTITION_TO_TXN: 1,
    CommandType.ADD_SUBSCRIPTION_TO_TXN: 1,
    CommandType.END_TXN: 1,
    CommandType.END_TXN_ON_PARTITION: 1,
    CommandType.END_TXN_ON_SUBSCRIPTION: 1,
    CommandType.TC_CLIENT_CONNECT_REQUEST: 1,
    CommandType.WATCH_TOPIC_LIST: 1,
    CommandType.WATCH_TOPIC_LIST_CLOSE: 1,
}

# What only a server says. A client that says it is none.
OF_SERVERS: Final = frozenset(
    {
        CommandType.CONNECTED,
        CommandType.SEND_RECEIPT,
        CommandType.SEND_ERROR,
        CommandType.MESSAGE,
        CommandType.SUCCESS,
        CommandType.ERROR,
        CommandType.PRODUCER_SUCCESS,
        CommandType.REACHED_END_OF_TOPIC,
        CommandType.ACTIVE_CONSUMER_CHANGE,
        CommandType.AUTH_CHALLENGE,
        CommandType.WATCH_TOPIC_LIST_SUCCESS,
        CommandType.WATCH_TOPIC_UPDATE,
        CommandType.TOPIC_MIGRATED,
        *(kind for kind in CommandType if kind.name.endswith("_RESPONSE")),
    }
) - {CommandType.AUTH_RESPONSE}
