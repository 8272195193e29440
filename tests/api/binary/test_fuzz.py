"""The server survives any bytes of a client, and leaves no task or connection behind.

Commands are drawn from the protocol's messages, so that what is well-formed reaches every branch,
and then damaged.
"""

import asyncio
import logging
import struct
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_ctl.api.binary.enums import CommandType, LookupType
from broker_ctl.api.binary.pulsar_commands_pb2 import BaseCommand
from tests.api.binary.serving import SELF, Served, serving
from tests.support.http.binary_client import CONNECT, BinaryClient, framed
from tests.support.time.waiting import eventually

TOPIC: Final = "persistent://t/ns/known"
TOPICS: Final = st.sampled_from([TOPIC, "persistent://t/ns/y", "x", "a/b", "t/gone/z", "", "\0"])
SCALARS: Final[dict[int, st.SearchStrategy[Any]]] = {
    FieldDescriptor.TYPE_STRING: TOPICS | st.text(max_size=40),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=40),
    FieldDescriptor.TYPE_INT32: st.integers(0, 3) | st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 9) | st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
}


def values_of(field: Any) -> st.SearchStrategy[Any]:
    described = field.message_type
    one = SCALARS[field.type] if described is None else messages(described)
    return st.lists(one, max_size=2) if field.is_repeated else one


def messages(described: Descriptor) -> st.SearchStrategy[Message]:
    """A message with what is required, and some of the rest."""
    fields = described.fields
    return st.fixed_dictionaries(
        {field.name: values_of(field) for field in fields if field.is_required},
        optional={field.name: values_of(field) for field in fields if not field.is_required},
    ).map(lambda drawn: GetMessageClass(described)(**drawn))


def commands() -> st.SearchStrategy[bytes]:
    """A command of any kind, well-formed."""

    def of(kind: CommandType) -> st.SearchStrategy[bytes]:
        field = BaseCommand.DESCRIPTOR.fields_by_number.get(kind)
        own = {} if field is None else {field.name: values_of(field)}
        return st.fixed_dictionaries(own).map(
            lambda drawn: BaseCommand(type=kind, **drawn).SerializePartialToString()
        )

    served = [CommandType.LOOKUP, CommandType.PARTITIONED_METADATA, CommandType.PING]
    return (st.sampled_from(served) | st.sampled_from(CommandType)).flatmap(of)


VARINTS: Final = st.sampled_from([b"\xff" * 9 + b"\x01", b"\xff" * 10 + b"\x01", b"\x80" * 20])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A command with something wrong in its bytes; its frame is right."""
    body = draw(commands())
    at = draw(st.integers(0, len(body)))
    match draw(st.integers(0, 4)):
        case 0:  # cut short
            body = body[:at]
        case 1 if body:  # a bit that fell over
            at = min(at, len(body) - 1)
            body = body[:at] + bytes([body[at] ^ (1 << draw(st.integers(0, 7)))]) + body[at + 1 :]
        case 2:  # a huge number in the middle of it
            body = body[:at] + draw(VARINTS) + body[at:]
        case 3:  # a field that nobody knows, of some wire type
            tag = draw(st.integers(100, 2**29 - 1)) << 3 | draw(st.integers(0, 7))
            body += varint(tag) + draw(st.binary(max_size=12))
        case _:  # another command's message after its own
            body += draw(commands())
    return framed(body)


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


@st.composite
def misframed(draw: st.DrawFn) -> bytes:
    """A command with sizes that are not its own."""
    body = draw(commands())
    sizes = st.sampled_from([0, 1, 4, len(body), len(body) + 4, 0x4000, 0x7FFFFFFF, 0xFFFFFFFF])
    off = st.integers(-5, 5)
    total = max(0, draw(sizes) + draw(off)) % 2**32
    return struct.pack("!II", total, max(0, draw(sizes) + draw(off)) % 2**32) + body


STREAMS: Final = st.tuples(
    st.booleans(),  # whether it connects first
    st.lists(
        commands().map(framed) | commands().map(framed) | damaged() | misframed() | st.binary(),
        max_size=12,
    ),
    st.integers(0, 40),  # how many of the last bytes are not sent
    st.lists(st.integers(1, 200), max_size=3),  # lengths of the first pieces
    st.booleans(),  # whether it goes away without waiting for answers
)


class Stage:
    """A server, a client that behaves, and what must not happen."""

    def __init__(self, served: Served, good: BinaryClient, met: list[Any]) -> None:
        self.served = served
        self.good = good
        self.met = met
        self.asked = 0

    async def play(self, stream: bytes, pieces: list[int], *, is_rude: bool) -> None:
        async with BinaryClient.to(self.served.port) as client:
            for length in pieces:
                client.send(stream[:length])
                stream = stream[length:]
                await client.writer.drain()
            client.send(stream)
            if not is_rude:
                client.writer.write_eof()
                await client.rest()
        self.asked += 1
        found = await self.good.find(TOPIC, self.asked)
        assert (found.response, found.brokerServiceUrl) == (LookupType.CONNECT, SELF.native_url)
        await eventually(self.is_tidy, deadline_s=5, poll_s=0.001)
        assert self.met == []

    def is_tidy(self) -> bool:
        """Whether nothing is left but the good client."""
        in_flight = next(iter(self.served.instruments.in_flight.samples())).value
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        others = [task for task in tasks if task.get_name() != "TLS handshakes: accept"]
        return (
            self.served.connections() == 1
            and in_flight == self.served.bound.in_flight == 0
            and not others
        )


def test_no_stream_of_bytes_does_harm(caplog: pytest.LogCaptureFixture) -> None:
    met: list[Any] = []
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda _, context: met.append(context))
        stack = AsyncExitStack()

        async def begin() -> Stage:
            served = await stack.enter_async_context(serving())
            served.assign(SELF, TOPIC)
            good = await stack.enter_async_context(BinaryClient.connected(served.port))
            return Stage(served, good, met)

        stage = runner.run(begin())

        @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(STREAMS)
        def plays(drawn: tuple[bool, list[bytes], int, list[int], bool]) -> None:
            connects, frames, unsent, pieces, is_rude = drawn
            stream = b"".join([CONNECT] * connects + frames)
            stream = stream[: len(stream) - unsent] if unsent else stream
            runner.run(stage.play(stream, pieces, is_rude=is_rude))

        plays()
        counted = stage.served.counted()
        runner.run(stack.aclose())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    # The streams got somewhere: to the lookups, to the refusals, and to neither.
    assert {"LOOKUP", "PARTITIONED_METADATA", "PING"} <= {kind for kind, _ in counted}
    assert {"malformed", "out of order", "NotAllowedError"} <= {result for _, result in counted}
