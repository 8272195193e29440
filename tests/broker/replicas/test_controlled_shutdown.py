"""A broker on its way out, and a controller that answers it."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from broker_ctl.broker.replicas.lifecycle import ControlledShutdown, ShutdownRules
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.core.model.broker import AllowedHosts
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.http_client import HttpClient
from broker_ctl.peer_http import PeerAddresses, PeerHttp, urls_at
from tests.support.clusters.sessions import TICK_S, Party, parties
from tests.support.http.web_server import serving
from tests.support.time.waiting import PATIENCE_S

DONE = {"broker": 1, "is_done": True, "led": [], "reason": ""}
LEADS = {"broker": 1, "is_done": False, "led": [["t", 0], ["t", 1]], "reason": "min ISR"}
# Where the controller, whose id has another host, is served.
LOOPBACK = AllowedHosts(("127.0.0.1",))
FAST = ShutdownRules(max_retries=3, backoff_s=0.01, timeout_s=5.0)


class Leaving:
    """Broker 1, and a controller with its answers.

    Attributes:
        answers: statuses with bodies, in order; the last one stays.
        asked: what the controller was asked for.
        is_known: whether anybody knows of a controller.
    """

    def __init__(self, party: Party, http: HttpClient) -> None:
        own = LiveBroker(1, 0, "h", 6650, "a:1", "http://a:1")
        self.ids = BrokerIds(
            party.store, own, party.deletions, party.clock, TICK_S, rng=random.Random(1)
        )
        self.party = party
        self.answers: list[tuple[int, Any]] = [(200, DONE)]
        self.asked: list[Mapping[str, Any]] = []
        self.is_known = True
        self.held = 5
        self.url = ""
        self.shutdown = ControlledShutdown(
            self.ids,
            PeerHttp(http, PeerAddresses(LOOPBACK), lambda name: urls_at(name, self.url)),
            FAST,
            replicas=lambda: self.held,
            controller=lambda: ("c:1", self.url) if self.is_known else None,
        )

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.json_response(body, status=status)


@asynccontextmanager
async def leaving() -> AsyncIterator[Leaving]:
    client = HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20)
    async with parties() as (party,), client as http:
        one = Leaving(party, http)
        app = web.Application()
        app.router.add_post("/control/v1/controlled-shutdown", one.answer)
        async with serving(app) as one.url:
            yield one


async def test_the_request_to_the_controller_names_the_broker_and_its_epoch() -> None:
    async with leaving() as one:
        epoch = await one.ids.register()
        assert await one.shutdown.run()
        assert one.asked == [{"broker": 1, "broker_epoch": epoch, "force": False}]


async def test_a_broker_asks_again_while_it_leads_and_while_nobody_answers() -> None:
    async with leaving() as one:
        await one.ids.register()
        one.answers = [(503, {"error": "NoController", "reason": ""}), (200, LEADS), (200, DONE)]
        assert await one.shutdown.run()
        assert len(one.asked) == 3


async def test_requests_of_a_controlled_shutdown_end_after_four_attempts() -> None:
    async with leaving() as one:
        await one.ids.register()
        one.answers = [(200, LEADS)]
        assert not await one.shutdown.run()
        assert len(one.asked) == 4
        one.url, one.asked = "http://127.0.0.1:1", []
        assert not await one.shutdown.run()


async def test_without_a_controller_or_a_registration_it_only_goes() -> None:
    async with leaving() as one:
        assert not await one.shutdown.run()
        await one.ids.register()
        one.is_known = False
        assert not await one.shutdown.run()
        assert one.asked == []


async def test_a_broker_without_replicas_sends_no_request() -> None:
    async with leaving() as one:
        await one.ids.register()
        one.held = 0
        assert await one.shutdown.run()
        assert one.asked == []
