"""Commands that a client may send in each state of its connection, over a socket."""

import pytest

from broker_ctl.api.binary.conversation import FIELDS, OF_SERVERS, Act, ConversationState, act_on
from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.api.binary.pulsar_commands_pb2 import BaseCommand
from broker_ctl.api.binary.replies import NO_REQUEST
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.static_tokens import StaticTokens
from tests.api.binary.serving import RULES, SELF, Served, serving
from tests.support.http.binary_client import (
    CONNECT,
    PING,
    PONG,
    BinaryClient,
    command,
    framed,
    lookup,
    partitions,
)

TOPIC = "persistent://t/ns/x"
SECRET = "a-secret-of-sixteen"
OTHER_SECRET = "another-secret-of-more"
TOKENS = Authenticator([StaticTokens.parse(f"admin:{SECRET}\napp:{OTHER_SECRET}")])
REFUSED = [kind for kind in CommandType if act_on(ConversationState.CONNECTED, kind) is Act.REFUSE]
WITH_IDS = [kind for kind in REFUSED if kind in FIELDS]


def bare(kind: int) -> bytes:
    """A command of which only the type is there."""
    return framed(BaseCommand(type=kind).SerializeToString())


def filled(kind: CommandType) -> bytes:
    """A command with all that must be there."""
    message = BaseCommand.DESCRIPTOR.fields_by_number[kind].message_type
    assert message is not None
    required = [field for field in message.fields if field.is_required]
    words = {field.TYPE_STRING: "x" for field in required}
    return command(kind, **{field.name: words.get(field.type, 1) for field in required})


def as_sent(kind: CommandType) -> bytes:
    return filled(kind) if kind in FIELDS else bare(kind)


async def last_error(client: BinaryClient, *frames: bytes) -> tuple[ServerError, str]:
    """The error that the client receives before the server closes the connection."""
    client.send(*frames)
    answer = await client.receive()
    assert answer.type == CommandType.ERROR
    assert answer.error.request_id == NO_REQUEST
    assert await client.rest() == b""
    return ServerError(answer.error.error), answer.error.message


@pytest.mark.parametrize(("version", "spoken"), [(0, 0), (-3, 0), (13, 13), (21, 21), (99, 21)])
async def test_client_and_server_speak_the_older_of_their_versions(
    served: Served, version: int, spoken: int
) -> None:
    async with BinaryClient.to(served.port) as client:
        connect = command(CommandType.CONNECT, client_version="c", protocol_version=version)
        connected = (await client.ask(connect)).connected
        assert connected.protocol_version == spoken
        assert connected.server_version == "broker-ctl 0"
        # Clients hold to it wherever they send a message.
        assert connected.max_message_size == 5 * 1024 * 1024
        flags = connected.feature_flags
        assert flags.supports_get_partitioned_metadata_without_auto_creation
        assert not flags.supports_topic_watchers
        assert not flags.supports_auth_refresh


async def test_a_ping_is_answered_and_a_pong_is_not(client: BinaryClient, served: Served) -> None:
    client.send(PONG, PING, PONG, PING)
    assert [(await client.receive()).type for _ in range(2)] == [CommandType.PONG] * 2
    assert served.counted()["PING", "ok"] == 2
    assert served.counted()["PONG", "ok"] == 2


@pytest.mark.parametrize("kind", WITH_IDS)
async def test_a_request_that_is_not_served_is_refused_by_its_id(
    client: BinaryClient, kind: CommandType
) -> None:
    answer = await client.ask(command(kind, request_id=77))
    if kind is CommandType.GET_SCHEMA:
        assert answer.type == CommandType.GET_SCHEMA_RESPONSE
        response = answer.getSchemaResponse
        assert (response.request_id, response.error_code) == (77, ServerError.NotAllowedError)
        reason = response.error_message
    else:
        assert answer.type == CommandType.ERROR
        assert (answer.error.request_id, answer.error.error) == (77, ServerError.NotAllowedError)
        reason = answer.error.message
    assert reason.startswith(f"{kind.name} is not served here")
    assert await client.is_answered()


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_request_without_an_id_that_is_not_served_is_refused(
    client: BinaryClient, kind: CommandType
) -> None:
    answer = await client.ask(bare(kind))
    assert answer.error.request_id == NO_REQUEST
    assert answer.error.error == ServerError.NotAllowedError
    assert answer.error.message.startswith(f"{kind.name} is not served here")
    assert await client.is_answered()


@pytest.mark.parametrize("kind", [0, 1, 69, 1000, -1, 2**31 - 1])
async def test_a_command_of_a_newer_release_is_refused(
    client: BinaryClient, served: Served, kind: int
) -> None:
    answer = await client.ask(bare(kind))
    assert answer.error.message.startswith("unknown is not served here")
    assert await client.is_answered()
    assert served.counted()["unknown", "NotAllowedError"] == 1


@pytest.mark.parametrize("kind", [*sorted(OF_SERVERS), CommandType.CONNECT])
async def test_a_client_that_sends_a_servers_command_or_connects_twice_is_disconnected(
    client: BinaryClient, served: Served, kind: CommandType
) -> None:
    why, reason = await last_error(client, as_sent(kind), PING)
    assert why == ServerError.NotAllowedError
    assert reason == f"{kind.name} is not allowed while the client is connected"
    assert served.counted()[kind.name, "out of order"] == 1


@pytest.mark.parametrize("kind", [kind for kind in CommandType if kind is not CommandType.CONNECT])
async def test_a_client_connects_before_all_else(served: Served, kind: CommandType) -> None:
    async with BinaryClient.to(served.port) as client:
        why, reason = await last_error(client, as_sent(kind))
        assert why == ServerError.NotAllowedError
        assert reason == f"{kind.name} is not allowed while the client is new"


NO_COMMANDS = {
    "no protobuf": framed(b"\xff\xff\xff\xff"),
    "no type": framed(b""),
    "no message": bare(CommandType.LOOKUP),
    "no request id": framed(bytes.fromhex("0817ba01030a0178")),
    "no topic": framed(bytes.fromhex("0815aa01021005")),
    "a string in place of a message": framed(bytes.fromhex("0817b80105")),
    "a key without its value": lookup(TOPIC, properties=[{"key": "k"}]),
    "a payload": lookup("x")[:3] + b"\x0f" + lookup("x")[4:] + b"!",
    "too long": framed(bytes(20_000)),
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("what", NO_COMMANDS)
async def test_a_malformed_command_ends_the_connection(
    client: BinaryClient, served: Served, what: str
) -> None:
    # What was said before is answered; what comes after is not heard.
    why, reason = await last_error(client, NO_COMMANDS[what], CONNECT)
    assert why == ServerError.NotAllowedError
    assert reason.startswith("no command of Pulsar's protocol: ")
    assert served.counted()["unknown", "malformed"] == 1


@pytest.mark.parametrize("what", NO_COMMANDS)
async def test_a_client_that_sends_nothing_sensible_gets_the_reason(
    served: Served, what: str
) -> None:
    async with BinaryClient.to(served.port) as client:
        assert (await last_error(client, NO_COMMANDS[what]))[0] == ServerError.NotAllowedError


async def test_commands_in_one_segment_are_all_answered(
    client: BinaryClient, served: Served
) -> None:
    served.assign(SELF, TOPIC)
    served.partitions.counts[TOPIC] = 3
    client.send(*(lookup(TOPIC, n) + PING + partitions(TOPIC, n) for n in range(200)))
    kinds = [(await client.receive()).type for _ in range(600)]
    for kind in (CommandType.LOOKUP_RESPONSE, CommandType.PONG):
        assert kinds.count(kind) == 200
    assert served.counted()["LOOKUP", "ok"] == 200
    assert served.counted()["PARTITIONED_METADATA", "ok"] == 200


async def test_a_command_in_pieces_is_answered_when_it_is_whole(
    client: BinaryClient, served: Served
) -> None:
    served.assign(SELF, TOPIC)
    for byte in lookup(TOPIC, 9):
        client.send(bytes([byte]))
        await client.writer.drain()
    assert (await client.receive()).lookupTopicResponse.request_id == 9


@pytest.mark.parametrize("secret", [SECRET, OTHER_SECRET])
async def test_a_known_token_is_let_in_whatever_its_role(secret: str) -> None:
    async with serving(authenticator=TOKENS) as served, BinaryClient.to(served.port) as client:
        connect = command(
            CommandType.CONNECT,
            client_version="c",
            auth_method_name="token",
            auth_data=secret.encode(),
        )
        assert (await client.ask(connect)).type == CommandType.CONNECTED
        assert await client.is_answered()


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ({}, "authentication by 'token' or 'tls' is wanted, not by 'none'"),
        (
            {"auth_data": SECRET.encode()},
            "authentication by 'token' or 'tls' is wanted, not by 'none'",
        ),
        ({"auth_method_name": "tls"}, "a client certificate of a trusted authority is wanted"),
        ({"auth_method": 1}, "authentication by 'token' or 'tls' is wanted, not by 'yca_v1'"),
        ({"auth_method": 9}, "authentication by 'token' or 'tls' is wanted, not by 'none'"),
        ({"auth_method_name": "token"}, "a known token is wanted"),
        ({"auth_method_name": "token", "auth_data": b"wrong"}, "a known token is wanted"),
        ({"auth_method_name": "token", "auth_data": b"\xff\0"}, "a known token is wanted"),
        (
            {"auth_method_name": "token", "original_auth_data": SECRET},
            "a known token is wanted",
        ),
    ],
)
async def test_a_client_without_a_known_token_is_rejected(
    shown: dict[str, object], reason: str
) -> None:
    connect = command(CommandType.CONNECT, client_version="c", **shown)
    async with serving(authenticator=TOKENS) as served, BinaryClient.to(served.port) as client:
        error = await last_error(client, connect, lookup(TOPIC))
        assert error == (ServerError.AuthenticationError, reason)
        assert served.counted() == {("CONNECT", "AuthenticationError"): 1}


async def test_a_server_without_credentials_accepts_any_token(served: Served) -> None:
    connect = command(
        CommandType.CONNECT, client_version="c", auth_method_name="token", auth_data=b"any"
    )
    async with BinaryClient.to(served.port) as client:
        assert (await client.ask(connect)).type == CommandType.CONNECTED


def test_credentials_are_not_printed() -> None:
    rules = type(RULES)("v", TOKENS)
    assert SECRET not in repr(rules)
