"""Commands as bytes, worked out by hand from the protocol's field numbers."""

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from broker_ctl.api.binary import replies
from broker_ctl.api.binary.conversation import FIELDS, Act, ConversationState, act_on
from broker_ctl.api.binary.enums import CommandType, LookupType, ServerError
from broker_ctl.api.binary.pulsar_commands_pb2 import (
    DESCRIPTOR,
    BaseCommand,
    CommandPartitionedTopicMetadata,
)
from broker_ctl.core.model.broker import LookupUrls
from tests.support.http.binary_client import CONNECT, PING, command, lookup, partitions


def bytes_of(text: str) -> bytes:
    """Hexadecimal digits in groups, and words in quotes."""
    parts = (
        part.strip("'").encode() if part.startswith("'") else bytes.fromhex(part)
        for part in text.split()
    )
    return b"".join(parts)


# Sizes; type 23 (field 1); LOOKUP is field 23: tag 23 * 8 + 2 = 186 = 0xba 0x01.
LOOKUP = bytes_of("0000000e 0000000a 08 17 ba01 05 0a 01 'x' 10 05")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (lookup("x", 5), LOOKUP),
        (
            lookup("x", 5, authoritative=True, advertised_listener_name="l"),
            bytes_of("00000013 0000000f 08 17 ba01 0a 0a 01 'x' 10 05 18 01 3a 01 'l'"),
        ),
        (
            partitions("x", 300, metadata_auto_creation_enabled=False),
            bytes_of("00000011 0000000d 08 15 aa01 08 0a 01 'x' 10 ac02 30 00"),
        ),
        (PING, bytes_of("00000009 00000005 08 12 92 01 00")),
        (CONNECT, bytes_of("00000010 0000000c 08 02 12 08 0a 04 'test' 20 15")),
        (replies.PING, bytes_of("00000009 00000005 08 12 92 01 00")),
        (replies.PONG, bytes_of("00000009 00000005 08 13 9a 01 00")),
        (
            # 5 MiB = 64 * 2**14 + 2 * 2**21; of the feature flags the fifth.
            replies.connected("v", 99, 5 * 1024 * 1024),
            bytes_of("00000016 00000012 08 03 1a 0e 0a 01 'v' 10 15 18 8080c002 22 02 28 01"),
        ),
        (
            # Field 36: tag 36 * 8 + 2 = 290 = 0xa2 0x02.
            replies.auth_challenge("v", 99, "token"),
            bytes_of(
                "0000002a 00000026 08 24 a202 21 0a 01 'v' "
                "12 1a 0a 05 'token' 12 11 'PulsarAuthRefresh' 18 15"
            ),
        ),
        (
            # Field 37: tag 298 = 0xaa 0x02.
            command(
                CommandType.AUTH_RESPONSE,
                client_version="c",
                response={"auth_method_name": "token", "auth_data": b"s"},
            ),
            bytes_of("00000018 00000014 08 25 aa02 0f 0a 01 'c' 12 0a 0a 05 'token' 12 01 's'"),
        ),
        (
            replies.error(replies.NO_REQUEST, ServerError.NotAllowedError, "no"),
            bytes_of("00000019 00000015 08 0e 72 11 08 ffffffffffffffffff01 10 16 1a 02 'no'"),
        ),
        (
            replies.refusal(CommandType.PRODUCER, 7, "no"),
            bytes_of("00000010 0000000c 08 0e 72 08 08 07 10 16 1a 02 'no'"),
        ),
        (
            # The one request that no ERROR answers.
            replies.refusal(CommandType.GET_SCHEMA, 7, "no"),
            bytes_of("00000011 0000000d 08 23 9a02 08 08 07 10 16 1a 02 'no'"),
        ),
        (
            replies.located(5, LookupType.CONNECT, LookupUrls("u", "t"), is_authoritative=True),
            bytes_of("00000015 00000011 08 18 c201 0c 0a 01 'u' 12 01 't' 18 01 20 05 28 01"),
        ),
        (
            replies.located(5, LookupType.REDIRECT, LookupUrls("u"), is_authoritative=False),
            bytes_of("00000012 0000000e 08 18 c201 09 0a 01 'u' 18 00 20 05 28 00"),
        ),
        (
            replies.partitions(5, 4),
            bytes_of("0000000f 0000000b 08 16 b201 06 08 04 10 05 18 00"),
        ),
        (
            replies.failure(CommandType.LOOKUP, 5, ServerError.ServiceNotReady, "no"),
            bytes_of("00000013 0000000f 08 18 c201 0a 18 02 20 05 30 06 3a 02 'no'"),
        ),
        (
            replies.failure(CommandType.PARTITIONED_METADATA, 5, ServerError.TopicNotFound, "no"),
            bytes_of("00000013 0000000f 08 16 b201 0a 10 05 18 01 20 0b 2a 02 'no'"),
        ),
    ],
)
def test_a_command_has_its_bytes(frame: bytes, expected: bytes) -> None:
    assert frame == expected


def test_a_command_is_read_with_its_defaults() -> None:
    asked = BaseCommand.FromString(LOOKUP[8:]).lookupTopic
    assert (asked.topic, asked.request_id, asked.authoritative) == ("x", 5, False)
    assert CommandPartitionedTopicMetadata().metadata_auto_creation_enabled is True


REQUIRED = {
    "BaseCommand": ["type"],
    "CommandConnect": ["client_version"],
    "CommandConnected": ["server_version"],
    "CommandError": ["request_id", "error", "message"],
    "CommandPartitionedTopicMetadata": ["topic", "request_id"],
    "CommandPartitionedTopicMetadataResponse": ["request_id"],
    "CommandLookupTopic": ["topic", "request_id"],
    "KeyValue": ["key", "value"],
    "CommandLookupTopicResponse": ["request_id"],
    "CommandGetTopicsOfNamespace": ["request_id", "namespace"],
    "CommandGetTopicsOfNamespaceResponse": ["request_id"],
    "CommandGetSchemaResponse": ["request_id"],
}


@pytest.mark.parametrize(("name", "described"), DESCRIPTOR.message_types_by_name.items())
def test_a_message_is_encoded_only_with_its_required_fields(
    name: str, described: Descriptor
) -> None:
    required = REQUIRED.get(name, [])
    assert [field.name for field in described.fields if field.is_required] == required
    message = GetMessageClass(described)()
    assert message.IsInitialized() is (not required)
    if required:
        with pytest.raises(EncodeError, match=required[0]):
            message.SerializeToString()


def test_each_command_is_known_by_its_number() -> None:
    numbers = {field.number for field in BaseCommand.DESCRIPTOR.fields}
    assert numbers == {1, *FIELDS}
    assert FIELDS.keys() <= set(CommandType)


def test_a_request_that_is_refused_has_its_id_alone() -> None:
    for number in FIELDS:
        if act_on(ConversationState.CONNECTED, number) is Act.REFUSE:
            described = BaseCommand.DESCRIPTOR.fields_by_number[number].message_type
            assert described is not None
            assert list(described.fields_by_name) == ["request_id"]


def test_a_long_reason_is_cut_and_an_unencodable_character_is_replaced() -> None:
    frame = replies.error(1, ServerError.UnknownError, "\ud800" + "x" * 10_000)
    message = BaseCommand.FromString(frame[8:]).error.message
    assert message.startswith("?xxx")
    assert len(message) == 500
