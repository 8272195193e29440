"""Orders to other brokers, over real HTTP."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.membership.cluster import HttpPeers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import AllowedHosts, BrokerUrls
from broker_ctl.core.model.commands import (
    Command,
    PrepareTransfer,
)
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.peer_http import PeerAddresses, PeerHttp
from broker_ctl.store.records.broker_ctl import Registration
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import PATIENCE_S, eventually

# Where the other broker, whose id has another host, is served.
LOOPBACK = AllowedHosts(("127.0.0.1",))
ORDER = PrepareTransfer(3, Bundle.parse("t/ns/0x00000000_0xffffffff"), "m1", 2)


class Own:
    """This broker."""

    async def handle(self, order: Command) -> Mapping[str, Any]:
        return {"own": order.verb}


@asynccontextmanager
async def peers(other_url: str | None) -> AsyncIterator[HttpPeers]:
    """Peers of broker `own:1`, with `other:1` registered at ``other_url``."""
    ensemble = MemoryEnsemble()
    store, other_store = MemoryStore(ensemble), MemoryStore(ensemble)
    registry = Registry(
        store,
        Registration("n", 0, 0, BrokerUrls("own:1")),
        Deletions(store, rng=random.Random(1)),
        1.0,
        rng=random.Random(1),
    )
    other = Registration("n2", 0, 0, BrokerUrls("other:1", other_url))
    for one in (store, other_store):
        await one.start()
        await one.wait_connected()
    await registry.start()
    await Registry(
        other_store, other, Deletions(other_store, rng=random.Random(1)), 1.0, rng=random.Random(1)
    ).register(b"")
    await eventually(lambda: registry.peer("other:1"))

    def registered(broker_id: str) -> BrokerUrls | None:
        peer = registry.peer(broker_id)
        return None if peer is None else peer.urls

    async with HttpClient(timeout_s=PATIENCE_S, max_body_bytes=10_000) as http:
        bound = PeerHttp(http, PeerAddresses(LOOPBACK), registered)
        yield HttpPeers(registry, bound, Own().handle)
    await registry.close()
    await store.close()
    await other_store.close()


def broker(status: int, body: str) -> web.Application:
    async def control(request: web.Request) -> web.Response:
        assert await request.json() == ORDER.to_row()
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_post("/control/v1/prepare", control)
    return app


async def test_an_order_to_another_broker_is_posted_and_its_answer_handed_on() -> None:
    async with serving(broker(200, '{"accepted":"x"}')) as url, peers(url) as all_:
        assert await all_.send("other:1", ORDER, 5.0) == {"accepted": "x"}


async def test_the_own_broker_is_called_without_a_detour() -> None:
    async with peers(None) as all_:
        assert await all_.send("own:1", ORDER, 5.0) == {"own": "prepare"}


async def test_a_no_comes_with_the_kind_of_error_that_the_other_met() -> None:
    said = '{"error":"Draining","reason":"on its way down"}'
    async with serving(broker(503, said)) as url, peers(url) as all_:
        with pytest.raises(PeerRefused, match="on its way down") as met:
            await all_.send("other:1", ORDER, 5.0)
        assert met.value.kind == "Draining"


@pytest.mark.parametrize("body", ["no JSON", "[]", "x" * 20_000])
async def test_an_answer_that_is_none_leaves_open_what_was_done(body: str) -> None:
    async with serving(broker(200, body)) as url, peers(url) as all_:
        with pytest.raises(PeerUnreachable):
            await all_.send("other:1", ORDER, 5.0)


async def test_a_peer_that_does_not_answer_or_is_unknown_is_unreachable() -> None:
    async with peers(f"http://127.0.0.1:{free_port()}") as all_:
        with pytest.raises(PeerUnreachable, match="other:1"):
            await all_.send("other:1", ORDER, 1.0)
        with pytest.raises(PeerUnreachable, match="not registered"):
            await all_.send("unknown:1", ORDER, 1.0)
    async with peers(None) as all_:
        with pytest.raises(PeerUnreachable, match="not registered"):
            await all_.send("other:1", ORDER, 1.0)
