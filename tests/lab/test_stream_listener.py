"""A listener that closes ends all of its connections, at whichever step they are."""

import asyncio
import gc
import socket
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.lab.stream_listener import StreamListener
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually

HOST = "127.0.0.1"


async def wait_for_ever(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"answer")


class Closing(StreamListener):
    """Closes as a connection arrives: before its task takes a step, or before it has one."""

    is_before_it_is_taken = False

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        closing = asyncio.get_running_loop().create_task(self.close(), name="close")
        if self.is_before_it_is_taken:
            closing.add_done_callback(lambda _: super(Closing, self)._take(reader, writer))
        else:
            super()._take(reader, writer)


@asynccontextmanager
async def connected(listener: StreamListener) -> AsyncIterator[asyncio.StreamReader]:
    port = free_port()
    await listener.open(HOST, port)
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield reader
    finally:
        writer.close()
        await listener.close()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """All bytes until the other end closes the connection."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_a_connection_ends_after_its_answer() -> None:
    async with connected(StreamListener(answer, "test")) as reader:
        assert await all_of(reader) == b"answer"


async def test_a_connection_that_is_served_ends_when_the_listener_closes() -> None:
    listener = StreamListener(wait_for_ever, "test")
    async with connected(listener) as reader:
        await eventually(lambda: len(listener) == 1)
        await listener.close()
        assert len(listener) == 0
        assert await all_of(reader) == b""


@pytest.mark.parametrize("is_before_it_is_taken", [False, True])
async def test_a_connection_that_arrives_during_the_close_ends(
    *, is_before_it_is_taken: bool
) -> None:
    listener = Closing(wait_for_ever, "test")
    listener.is_before_it_is_taken = is_before_it_is_taken
    async with connected(listener) as reader:
        assert await all_of(reader) == b""


async def test_a_connection_accepted_in_the_turn_of_the_close_leaves_no_socket_open() -> None:
    listener, port = StreamListener(wait_for_ever, "test"), free_port()
    await listener.open(HOST, port)
    with warnings.catch_warnings(record=True) as said, socket.create_connection((HOST, port)):
        warnings.simplefilter("always")
        # In the second turn from here it is accepted, and not yet a connection.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await listener.close()
        await asyncio.sleep(0)
        gc.collect()
    assert [str(each.message) for each in said] == []
