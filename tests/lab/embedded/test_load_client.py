"""The clients of a trial cluster."""

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from broker_ctl.codec import encode
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.load_client import LoadClient
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.tasks import TaskScope
from tests.support.http.web_server import free_port, serving
from tests.support.time.waiting import PATIENCE_S, eventually

TOPIC = "persistent://public/default/a"


async def test_a_broker_that_is_gone_costs_no_lookup() -> None:
    app = web.Application()

    async def owner(request: web.Request) -> web.Response:
        return web.json_response({"brokerUrl": "pulsar://here:6650"})

    app.router.add_get("/lookup/v2/topic/{path:.*}", owner)
    async with (
        serving(app) as url,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        gone = f"http://127.0.0.1:{free_port()}"
        # Whichever of the two is drawn first.
        for seed in range(6):
            client = LoadClient(http, [gone, url], [TOPIC], random.Random(seed))
            async with TaskScope("clients") as scope:
                scope.start(client.run(), "load client")
                await eventually(partial(client.owners.get, TOPIC))
            assert client.statistics.failures == 0


async def test_a_redirect_to_a_broker_that_is_gone_costs_no_lookup() -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    behind, ahead = web.Application(), web.Application()

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(gone + request.path)

    async def owner(request: web.Request) -> web.Response:
        return web.json_response({"brokerUrl": "pulsar://here:6650"})

    behind.router.add_get("/lookup/v2/topic/{path:.*}", redirect)
    ahead.router.add_get("/lookup/v2/topic/{path:.*}", owner)
    async with (
        serving(behind) as first,
        serving(ahead) as second,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        for seed in range(6):
            client = LoadClient(http, [first, second], [TOPIC], random.Random(seed))
            async with TaskScope("clients") as scope:
                scope.start(client.run(), "load client")
                await eventually(partial(client.owners.get, TOPIC))
            assert (client.statistics.lookups, client.statistics.failures) == (1, 0)


class Answers(HttpClient):
    """Answers of brokers by URL, which a test may add meanwhile; other brokers are down."""

    def __init__(self, answers: Mapping[str, HttpReply]) -> None:
        super().__init__(timeout_s=PATIENCE_S, max_body_bytes=1)
        self.answers = dict(answers)

    async def request(self, method: str, url: str, **_: Any) -> HttpReply:
        await asyncio.sleep(0.01)
        answer = self.answers.get(url.partition("/lookup")[0])
        if answer is None:
            raise HttpError(f"{method} {url}: gone")
        return answer


OWNED = HttpReply(200, {}, encode({"brokerUrl": "pulsar://b:6650"}))
NOT_NOW = HttpReply(503, {}, encode({"reason": "it is on its way"}))


@in_virtual_time
async def test_a_lookup_whose_owner_is_known_only_after_a_while_has_not_failed() -> None:
    http = Answers({"http://b": NOT_NOW})
    client = LoadClient(http, ["http://a", "http://b"], [TOPIC], random.Random(1))
    async with TaskScope("clients") as scope:
        scope.start(client.run(), "load client")
        await asyncio.sleep(15.0)
        http.answers["http://b"] = OWNED
        await eventually(partial(client.owners.get, TOPIC))
    assert (client.statistics.lookups, client.statistics.failures) == (1, 0)


@in_virtual_time
async def test_a_lookup_without_an_answer_within_pulsars_timeout_is_one_failure() -> None:
    client = LoadClient(Answers({}), ["http://a", "http://b"], [TOPIC], random.Random(1))
    async with TaskScope("clients") as scope:
        scope.start(client.run(), "load client")
        await asyncio.sleep(29.0)
        assert client.statistics.failures == 0
        await asyncio.sleep(29.0)
        assert (client.statistics.lookups, client.statistics.failures) == (2, 1)
