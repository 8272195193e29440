"""Only the server that a port is reserved for can listen on it."""

import socket

import pytest

from broker_ctl.errors import EmbeddedError
from broker_ctl.lab.embedded.ports import port_of, reserve_port


def test_a_reserved_port_is_taken_for_others_and_free_for_a_server_that_shares_it() -> None:
    with reserve_port() as held:
        port = port_of(held)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        # What Java does, twice as over a restart.
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as server:
                with socket.create_connection(("127.0.0.1", port)) as client:
                    server.accept()[0].close()
                    assert client.recv(1) == b""
                with pytest.raises(EmbeddedError, match=f"port {port} "):
                    reserve_port(port)
    with reserve_port(port) as held:
        assert port_of(held) == port


def test_reserved_ports_differ() -> None:
    held = [reserve_port() for _ in range(200)]
    try:
        assert len({port_of(one) for one in held}) == len(held)
    finally:
        for one in held:
            one.close()


def test_a_port_that_is_none_is_an_error() -> None:
    with pytest.raises(EmbeddedError, match="port 70000"):
        reserve_port(70_000)
