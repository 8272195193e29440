"""Replies as frames: answers, and the ServerError of each error (docs: pulsar-binary-lookup)."""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from broker_ctl.api.binary.enums import CommandType, LookupType, MetadataType, ServerError
from broker_ctl.api.binary.pulsar_commands_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.model.broker import LookupUrls
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    Draining,
    ForeignNamespace,
    InvalidName,
    NamespaceMissing,
    NoBroker,
    NoLeader,
    TopicMissing,
)

# A client's stream of bytes, cut into commands (docs: pulsar-binary-lookup).
#
# A frame is the size of what follows, the size of the command, the command. Pulsar takes frames
# of 5 MiB + 10 KiB, because messages travel in them. No message is accepted here, and what may
# follow a command, its payload, is refused: so the bound is that of a lookup. A topic's name has
# at most 4 KiB and a bit, and a proxy adds the client's token; 16 KiB hold both, twice, and ten
# thousand clients that stop in the middle of a frame hold no more than 160 MiB.


MAX_COMMAND_BYTES: Final = 16 * 1024

_SIZES: Final = struct.Struct("!II")
_SIZE_BYTES: Final = 4


class MalformedFrame(BrokerCtlError):
    """The bytes are not a frame that is accepted here; nothing after them can be read."""


def frame(command: bytes) -> bytes:
    """A command, ready to be written."""
    size = len(command)
    return _SIZES.pack(size + _SIZE_BYTES, size) + command


class BinaryFrames:
    """Assembles frames that span many reads; returns one command at a time."""

    def __init__(self) -> None:
        self._data = b""
        self._offset = 0  # of the first byte that was not given out

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._keep_rest()
        self._data += data

    def next(self) -> bytes | None:
        """The next command; None: it has not come whole.

        Raises:
            MalformedFrame: as soon as the sizes are there.
        """
        data, start = self._data, self._offset + _SIZES.size
        if start > len(data):
            self._keep_rest()
            return None
        total, size = _SIZES.unpack_from(data, self._offset)
        if total > MAX_COMMAND_BYTES + _SIZE_BYTES:
            raise MalformedFrame(f"a frame of {total} bytes; at most {MAX_COMMAND_BYTES} are taken")
        if total != size + _SIZE_BYTES:
            what = "a payload" if total > size + _SIZE_BYTES else "less than its command"
            raise MalformedFrame(f"a frame of {total} bytes with {what}: {size} bytes of command")
        end = start + size
        if end > len(data):
            self._keep_rest()
            return None
        self._offset = end
        return data[start:end]

    def _keep_rest(self) -> None:
        # A client that stops in the middle of a frame must not keep earlier frames in memory.
        self._data, self._offset = self._data[self._offset :], 0


# The ServerError of each error (docs: pulsar-binary-lookup).
#
# The choice decides what a client does next. ServiceNotReady makes the Java client leave the
# connection and look for another broker: right if this broker cannot answer for now. MetadataError
# makes a client ask again here, soon. TopicNotFound, InvalidTopicName and NotAllowedError make it
# give up with the reason.


_ERRORS: Final[tuple[tuple[type[BrokerCtlError], ServerError], ...]] = (
    (InvalidName, ServerError.InvalidTopicName),
    # Pulsar answers MetadataError to a LOOKUP in a namespace that does not exist, and its
    # clients repeat it until they time out. A request for partitions is answered alike.
    (NamespaceMissing, ServerError.TopicNotFound),
    (TopicMissing, ServerError.TopicNotFound),
    (ForeignNamespace, ServerError.NotAllowedError),
    (AuthorityLost, ServerError.ServiceNotReady),
    (NoLeader, ServerError.ServiceNotReady),
    (NoBroker, ServerError.ServiceNotReady),
    (Draining, ServerError.ServiceNotReady),
)
_BUSY: Final = 503
_FORBIDDEN: Final = 403


def server_error_of(met: BrokerCtlError) -> ServerError:
    """The ServerError that answers a request which failed with this error.

    What is not listed is a matter of metadata: a bundle on its way, a store that does not answer.
    All of it may be over when the client asks again.
    """
    if isinstance(met, ApiError):
        if met.status == _FORBIDDEN:
            return ServerError.AuthorizationError
        is_busy = met.status == _BUSY
        return ServerError.TooManyRequests if is_busy else ServerError.NotAllowedError
    for kind, error in _ERRORS:
        if isinstance(met, kind):
            return error
    return ServerError.MetadataError


# Replies to clients, as frames.


# The newest protocol version that is known here.
PROTOCOL_VERSION: Final = 21
# Clients send -1 where they mean no request; on the wire it is unsigned.
NO_REQUEST: Final = (1 << 64) - 1
# By these bytes Pulsar's clients know that the broker wants newer credentials (AuthData of Pulsar).
_REFRESH: Final = b"PulsarAuthRefresh"
# The field behind the id of a located topic: its tag, and a byte.
_AUTHORITATIVE_BYTES: Final = 2
# The longest id of a request that is not made into a number, as a varint.
MOST_ID_BYTES: Final = 5

# The bytes before a request's id, by the number of bytes that it has, those behind it, and whether
# they are a redirect.
Parts = tuple[Sequence[bytes], bytes, bool]
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


@lru_cache(maxsize=1024)
def located_parts(how: LookupType, there: LookupUrls, *, is_authoritative: bool) -> Parts:
    """As `located`, for a request whose id is put in between; see `Parts`."""
    heads, tail = [b""], b""
    for size in range(1, MOST_ID_BYTES + 1):
        # The smallest number that takes so many bytes; behind it is a field of two.
        whole = located(1 << 7 * (size - 1), how, there, is_authoritative=is_authoritative)
        heads.append(whole[: -size - _AUTHORITATIVE_BYTES])
        tail = whole[-_AUTHORITATIVE_BYTES:]
    return tuple(heads), tail, how is LookupType.REDIRECT


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
