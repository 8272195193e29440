"""Connections between replicas over TCP: each address of a name, with a limit of its own."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.replication import tcp
from broker_ctl.lab.replication.tcp import Channel, ChannelClosed, TcpNetwork
from tests.support.security.authority import Authority

SILENT, SERVING = "127.0.0.7", "127.0.0.1"


async def echo(channel: Channel) -> None:
    await channel.send(await channel.receive())


async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)
    writer.close()


def name(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    real = socket.getaddrinfo

    def found(host: str, port: Any, *rest: Any, **options: Any) -> Any:
        if host != "broker.test":
            return real(host, port, *rest, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)


async def test_a_silent_address_does_not_use_up_the_time_of_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With TLS, so that a server which accepts and says nothing is not taken for connected."""
    monkeypatch.setattr(tcp, "_CONNECT_S", 1.0)
    name(monkeypatch, SILENT, SERVING)
    network = TcpNetwork(Authority(tmp_path / "ca").issue("broker").tls("c"))
    with reserve_port() as held:
        port = port_of(held)
    listener = await network.listen(f"{SERVING}:{port}", echo)
    async with await asyncio.start_server(keep_silent, SILENT, port):
        channel = await network.connect(f"broker.test:{port}")
        await channel.send(b"hello")
        assert await channel.receive() == b"hello"
        channel.close()
    await listener.close()


async def test_the_error_names_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    name(monkeypatch, SILENT, SERVING)
    with pytest.raises(ChannelClosed, match=rf"{SILENT}: .*; broker.test:1 at {SERVING}: "):
        await TcpNetwork().connect("broker.test:1")
    with pytest.raises(ChannelClosed, match="not host:port"):
        await TcpNetwork().connect("broker")
