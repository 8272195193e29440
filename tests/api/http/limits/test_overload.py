"""An event loop that lags serves health checks, commands and leases, and rejects what has to wait.

The loop lags because other work of it blocks; all requests come over real connections.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.limits import requests
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port

LIMIT_S: Final = 0.02
# Of one iteration of the loop: a timer is late by up to that.
BLOCKED_S: Final = 0.1
DEADLINE_S: Final = 120.0
# More than start in one turn, so that some have to wait: memory answers hundreds of them in a turn
# of the usual length.
LOOKUPS: Final = 100
TURN_S: Final = 0.001
LOOKUP: Final = b"GET /lookup/v2/topic/persistent/t/ns/topic HTTP/1.1\r\nHost: localhost\r\n\r\n"
COMMAND: Final = json.dumps({"epoch": 1, "bundle": str(BUNDLES[0])}).encode()
URGENT: Final = {
    "health": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "lease": b"GET /dataplane/v1/authority HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "command": b"POST /control/v1/acquire HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(COMMAND), COMMAND),
}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    head: str


class Client:
    """One connection, which is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, request: bytes) -> None:
        self._writer.write(request)

    def close(self) -> None:
        self._writer.close()

    async def answer(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        await self._reader.readexactly(length)
        return Answer(int(head.split()[1]), head)


class Burst:
    """Clients that all send at once; the urgent ones last."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients

    @classmethod
    @asynccontextmanager
    async def to(cls, broker: Broker) -> AsyncIterator["Burst"]:
        host, port = broker.broker_id.split(":")
        async with AsyncExitStack() as stack:
            clients = []
            for _ in range(LOOKUPS + len(URGENT)):
                client = Client(*await asyncio.open_connection(host, int(port)))
                stack.callback(client.close)
                clients.append(client)
            yield cls(clients)

    async def send(self) -> tuple[list[Answer], dict[str, Answer]]:
        """The answers to lookups, and to what is urgent."""
        for client, request in zip(
            self._clients, [LOOKUP] * LOOKUPS + list(URGENT.values()), strict=True
        ):
            client.send(request)
        answers = [await client.answer() for client in self._clients]
        return answers[:LOOKUPS], dict(zip(URGENT, answers[LOOKUPS:], strict=True))


@contextmanager
def lagging_loop() -> Iterator[None]:
    """Each iteration of this loop takes ``BLOCKED_S`` at least."""
    loop, is_over = asyncio.get_running_loop(), False
    never = threading.Event()

    def block() -> None:
        never.wait(BLOCKED_S)
        if not is_over:
            loop.call_soon(block)

    loop.call_soon(block)
    try:
        yield
    finally:
        is_over = True


@asynccontextmanager
async def serving(max_loop_lag_s: float) -> AsyncIterator[Broker]:
    rules = ApiRules(CLUSTER, max_loop_lag_s=max_loop_lag_s)
    async with serving_brokers([free_port()], rules) as (broker,):
        yield broker


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_TURN_S", TURN_S)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with serving(LIMIT_S) as broker:
        yield broker


@pytest.mark.usefixtures("short_turns")
async def test_while_the_loop_lags_what_has_to_wait_is_rejected_and_what_is_urgent_is_served(
    broker: Broker,
) -> None:
    async with Burst.to(broker) as burst, asyncio.timeout(DEADLINE_S):
        rejections = 0
        with lagging_loop():
            # Whether it lags is measured four times a second, and some measurements are on time.
            while rejections < 3:
                lookups, urgent = await burst.send()
                rejected = [one for one in lookups if one.status == 503]
                rejections += bool(rejected)
                assert all("\r\nretry-after: 1\r\n" in one.head for one in rejected)
                # Those that have not to wait are served: other work may cause the lag.
                assert Counter(one.status for one in lookups)[200] > 0
                assert {kind for kind, one in urgent.items() if one.status == 503} == set()
                assert urgent["health"].status == 200

        # It does not lag any more: all is served.
        while any(one.status == 503 for one in (await burst.send())[0]):
            pass


async def test_a_lag_below_the_limit_rejects_nothing() -> None:
    async with (
        serving(60.0) as broker,
        Burst.to(broker) as burst,
        asyncio.timeout(DEADLINE_S),
    ):
        with lagging_loop():
            for _ in range(3):
                lookups, _ = await burst.send()
                assert {one.status for one in lookups} == {200}
