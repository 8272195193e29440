"""A link that is cut lets nobody through, also who had come a moment before."""

import asyncio

import pytest

from broker_ctl.lab.embedded.ports import LOOPBACK
from tests.support.time.waiting import eventually
from tests.support.zookeeper.proxy import Proxy, Way

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def test_a_connection_that_is_being_made_is_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that flees from the link before comes while this one is cut."""
    is_reaching, goes_on = asyncio.Event(), asyncio.Event()
    reach = Proxy._reach_server

    async def reach_late(self: Proxy) -> Streams:
        is_reaching.set()
        await goes_on.wait()
        return await reach(self)

    monkeypatch.setattr(Proxy, "_reach_server", reach_late)
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: taken.append(writer), LOOPBACK, 0)
    async with server, Proxy.to(server.sockets[0].getsockname()[1]) as proxy:
        reader, writer = await asyncio.open_connection(LOOPBACK, proxy.port)
        await is_reaching.wait()
        proxy.way = Way.REFUSED
        proxy.cut()
        goes_on.set()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 10.0)
        await eventually(lambda: not proxy._links)
        writer.transport.abort()
        for one in taken:
            one.transport.abort()
