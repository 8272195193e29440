"""The clients of a trial cluster."""

import random
from functools import partial

from aiohttp import web

from broker_ctl.embedded.load_client import LoadClient
from broker_ctl.http import HttpClient
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
