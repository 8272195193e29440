"""Commands as bytes, worked out by hand from the protocol's field numbers."""

import pytest
from google.protobuf.message import EncodeError

from broker_ctl.core.broker import LookupUrls
from broker_ctl.surface.binary import replies
from broker_ctl.surface.binary.enums import CommandType, LookupType, ServerError
from broker_ctl.surface.binary.messages import CLASSES, BaseCommand
from broker_ctl.surface.binary.tables import COMMANDS, MESSAGES, OF_SERVERS, REQUEST_IDS
from tests.support.http.binary_client import CONNECT, PING, lookup, partitions


def told(text: str) -> bytes:
    """Hexadecimal digits in groups, and words in quotes."""
    parts = (
        part.strip("'").encode() if part.startswith("'") else bytes.fromhex(part)
        for part in text.split()
    )
    return b"".join(parts)


# Sizes; type 23 (field 1); LOOKUP is field 23: tag 23 * 8 + 2 = 186 = 0xba 0x01.
LOOKUP = told("0000000e 0000000a 08 17 ba01 05 0a 01 'x' 10 05")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (lookup("x", 5), LOOKUP),
        (
            lookup("x", 5, authoritative=True, advertised_listener_name="l"),
            told("00000013 0000000f 08 17 ba01 0a 0a 01 'x' 10 05 18 01 3a 01 'l'"),
        ),
        (
            partitions("x", 300, metadata_auto_creation_enabled=False),
            told("00000011 0000000d 08 15 aa01 08 0a 01 'x' 10 ac02 30 00"),
        ),
        (PING, told("00000009 00000005 08 12 92 01 00")),
        (CONNECT, told("00000010 0000000c 08 02 12 08 0a 04 'test' 20 15")),
        (replies.PING, told("00000009 00000005 08 12 92 01 00")),
        (replies.PONG, told("00000009 00000005 08 13 9a 01 00")),
        (
            # 5 MiB = 64 * 2**14 + 2 * 2**21; of the feature flags the fifth.
            replies.connected("v", 99, 5 * 1024 * 1024),
            told("00000016 00000012 08 03 1a 0e 0a 01 'v' 10 15 18 8080c002 22 02 28 01"),
        ),
        (
            replies.error(replies.NO_REQUEST, ServerError.NotAllowedError, "no"),
            told("00000019 00000015 08 0e 72 11 08 ffffffffffffffffff01 10 16 1a 02 'no'"),
        ),
        (
            replies.refusal(CommandType.PRODUCER, 7, "no"),
            told("00000010 0000000c 08 0e 72 08 08 07 10 16 1a 02 'no'"),
        ),
        (
            # The one request that no ERROR answers.
            replies.refusal(CommandType.GET_SCHEMA, 7, "no"),
            told("00000011 0000000d 08 23 9a02 08 08 07 10 16 1a 02 'no'"),
        ),
        (
            replies.located(5, LookupType.CONNECT, LookupUrls("u", "t"), is_authoritative=True),
            told("00000015 00000011 08 18 c201 0c 0a 01 'u' 12 01 't' 18 01 20 05 28 01"),
        ),
        (
            replies.located(5, LookupType.REDIRECT, LookupUrls("u"), is_authoritative=False),
            told("00000012 0000000e 08 18 c201 09 0a 01 'u' 18 00 20 05 28 00"),
        ),
        (
            replies.partitions(5, 4),
            told("0000000f 0000000b 08 16 b201 06 08 04 10 05 18 00"),
        ),
        (
            replies.failure(CommandType.LOOKUP, 5, ServerError.ServiceNotReady, "no"),
            told("00000013 0000000f 08 18 c201 0a 18 02 20 05 30 06 3a 02 'no'"),
        ),
        (
            replies.failure(CommandType.PARTITIONED_METADATA, 5, ServerError.TopicNotFound, "no"),
            told("00000013 0000000f 08 16 b201 0a 10 05 18 01 20 0b 2a 02 'no'"),
        ),
    ],
)
def test_a_command_has_its_bytes(frame: bytes, expected: bytes) -> None:
    assert frame == expected


def test_a_command_is_read_with_its_defaults() -> None:
    asked = BaseCommand.FromString(LOOKUP[8:]).lookupTopic
    assert (asked.topic, asked.request_id, asked.authoritative) == ("x", 5, False)
    assert CLASSES["CommandPartitionedTopicMetadata"]().metadata_auto_creation_enabled is True


@pytest.mark.parametrize("name", [n for n, fields in MESSAGES.items() for f in fields[:1]])
def test_what_is_required_must_be_there(name: str) -> None:
    required = [field.name for field in MESSAGES[name] if field.label == "required"]
    message = CLASSES[name]()
    assert message.IsInitialized() is (not required)
    if required:
        with pytest.raises(EncodeError, match=required[0]):
            message.SerializeToString()


def test_the_tables_agree_with_each_other() -> None:
    for fields in MESSAGES.values():
        assert len({field.number for field in fields}) == len(fields)
    assert COMMANDS.keys().isdisjoint(REQUEST_IDS)
    assert OF_SERVERS.isdisjoint(REQUEST_IDS)
    numbers = {field.number for field in BaseCommand.DESCRIPTOR.fields}
    assert numbers == {1, *COMMANDS, *REQUEST_IDS}


def test_a_long_reason_is_cut_and_an_odd_one_is_sent() -> None:
    frame = replies.error(1, ServerError.UnknownError, "\ud800" + "x" * 10_000)
    told = BaseCommand.FromString(frame[8:]).error.message
    assert told.startswith("?xxx")
    assert len(told) == 500
