"""Replies to clients, as frames."""

from collections.abc import Sequence
from typing import Final

from broker_ctl.api.binary.enums import CommandType, LookupType, MetadataType, ServerError
from broker_ctl.api.binary.frames import frame
from broker_ctl.api.binary.pulsar_commands_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)
from broker_ctl.core.model.broker import LookupUrls

# The newest protocol version that is known here.
PROTOCOL_VERSION: Final = 21
# Clients send -1 where they mean no request; on the wire it is unsigned.
NO_REQUEST: Final = (1 << 64) - 1
# By these bytes Pulsar's clients know that the broker wants newer credentials (AuthData of Pulsar).
_REFRESH: Final = b"PulsarAuthRefresh"
# A reason may quote what a client sent; it need not be sent back in full.
_MAX_REASON_CHARACTERS: Final = 500


def _empty(kind: CommandType, field: str) -> bytes:
    command = BaseCommand(type=kind)
    getattr(command, field).SetInParent()
    return frame(command.SerializeToString())


PING: Final = _empty(CommandType.PING, "ping")
PONG: Final = _empty(CommandType.PONG, "pong")


def connected(server_version: str, protocol_version: int, max_message_bytes: int) -> bytes:
    """The handshake is done; the older of the two protocol versions is spoken."""
    command = BaseCommand(type=CommandType.CONNECTED)
    reply = command.connected
    reply.server_version = server_version
    reply.protocol_version = _spoken(protocol_version)
    reply.max_message_size = max_message_bytes
    reply.feature_flags.supports_get_partitioned_metadata_without_auto_creation = True
    return frame(command.SerializeToString())


def auth_challenge(server_version: str, protocol_version: int, method: str) -> bytes:
    """The client has to prove its role again, by the same method."""
    command = BaseCommand(type=CommandType.AUTH_CHALLENGE)
    ask = command.authChallenge
    ask.server_version, ask.protocol_version = server_version, _spoken(protocol_version)
    ask.challenge.auth_method_name, ask.challenge.auth_data = method, _REFRESH
    return frame(command.SerializeToString())


def error(request_id: int, kind: ServerError, reason: str) -> bytes:
    """A request that is not served, or, with `NO_REQUEST`, the end of the connection."""
    command = BaseCommand(type=CommandType.ERROR)
    reply = command.error
    reply.request_id, reply.error, reply.message = request_id, kind, _shortened(reason)
    return frame(command.SerializeToString())


def refusal(kind: CommandType, request_id: int, reason: str) -> bytes:
    """No to a request that is not served here, in the form that its sender waits for."""
    if kind is not CommandType.GET_SCHEMA:
        return error(request_id, ServerError.NotAllowedError, reason)
    # Pulsar's C++ client takes no other answer to it, and would wait until its timeout.
    command = BaseCommand(type=CommandType.GET_SCHEMA_RESPONSE)
    reply = command.getSchemaResponse
    reply.request_id, reply.error_code = request_id, ServerError.NotAllowedError
    reply.error_message = reason
    return frame(command.SerializeToString())


def located(
    request_id: int, how: LookupType, there: LookupUrls, *, is_authoritative: bool
) -> bytes:
    """The owner, or another broker to look up at, with this value of authoritative."""
    command = BaseCommand(type=CommandType.LOOKUP_RESPONSE)
    reply = command.lookupTopicResponse
    if there.url:
        reply.brokerServiceUrl = there.url
    if there.url_tls:
        reply.brokerServiceUrlTls = there.url_tls
    reply.response, reply.request_id, reply.authoritative = how, request_id, is_authoritative
    return frame(command.SerializeToString())


def partitions(request_id: int, count: int) -> bytes:
    """How many partitions a topic has; 0: it is not partitioned."""
    command = BaseCommand(type=CommandType.PARTITIONED_METADATA_RESPONSE)
    reply = command.partitionMetadataResponse
    reply.partitions, reply.request_id, reply.response = count, request_id, MetadataType.SUCCESS
    return frame(command.SerializeToString())


def topics(request_id: int, names: Sequence[str]) -> bytes:
    """The topics of a namespace; a client that sent a pattern holds them against it itself."""
    command = BaseCommand(type=CommandType.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    reply = command.getTopicsOfNamespaceResponse
    reply.request_id, reply.filtered, reply.changed = request_id, False, True
    reply.topics.extend(names)
    return frame(command.SerializeToString())


def failure(kind: CommandType, request_id: int, why: ServerError, reason: str) -> bytes:
    """A request that could not be answered, in the form that its sender waits for."""
    if kind is CommandType.GET_TOPICS_OF_NAMESPACE:
        return error(request_id, why, reason)
    reply: CommandLookupTopicResponse | CommandPartitionedTopicMetadataResponse
    if kind is CommandType.LOOKUP:
        command = BaseCommand(type=CommandType.LOOKUP_RESPONSE)
        reply = command.lookupTopicResponse
        reply.response = LookupType.FAILED
    else:
        command = BaseCommand(type=CommandType.PARTITIONED_METADATA_RESPONSE)
        reply = command.partitionMetadataResponse
        reply.response = MetadataType.FAILED
    reply.request_id, reply.error, reply.message = request_id, why, _shortened(reason)
    return frame(command.SerializeToString())


def _shortened(reason: str) -> str:
    """As much as is read by a person, and nothing that UTF-8 has no bytes for."""
    return reason[:_MAX_REASON_CHARACTERS].encode(errors="replace").decode()


def _spoken(protocol_version: int) -> int:
    """The older of the client's protocol version and the newest one here."""
    return max(0, min(protocol_version, PROTOCOL_VERSION))
