"""New connections wait for a busy event loop: a client that is turned away tries again later."""

import contextlib
import selectors
import socket
import time

from tests.support.clusters.fake_services import Broker
from tests.support.time.waiting import PATIENCE_S

# The defaults of asyncio and aiohttp are 100 and 128.
CLIENTS = 400


def are_all_connected(waiting: dict[socket.socket, None]) -> bool:
    """Waits without the event loop, which accepts none of them meanwhile."""
    until_s = time.monotonic() + PATIENCE_S
    with selectors.DefaultSelector() as selector:
        for client in waiting:
            selector.register(client, selectors.EVENT_WRITE)
        while selector.get_map() and time.monotonic() < until_s:
            for key, _ in selector.select(0.1):
                selector.unregister(key.fileobj)
        return not selector.get_map()


async def test_a_burst_of_clients_waits_in_the_queue_of_the_port(leader: Broker) -> None:
    host, port = leader.broker_id.split(":")
    with contextlib.ExitStack() as stack:
        clients: dict[socket.socket, None] = {}
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket())
            client.settimeout(0)
            client.connect_ex((host, int(port)))
            clients[client] = None
        assert are_all_connected(clients)
