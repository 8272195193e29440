"""``/livez`` and ``/readyz``, and Pulsar's health check."""

from collections.abc import Callable

from aiohttp import web

from broker_ctl.surface import answers
from broker_ctl.surface.parts import Readiness


class HealthRoutes:
    """Alive is who answers at all; ready says why not."""

    def __init__(self, readiness: Callable[[], Readiness]) -> None:
        self._readiness = readiness

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/livez", self.live),
            web.get("/readyz", self.ready),
            web.get("/admin/v2/brokers/health", self.ready),
            web.get("/admin/v2/brokers/ready", self.ready),
        ]

    async def live(self, _: web.Request) -> web.Response:
        """The event loop runs."""
        return web.Response(text="ok")

    async def ready(self, _: web.Request) -> web.Response:
        """200, or 503 with the reason."""
        readiness = self._readiness()
        if readiness.is_ready:
            return web.Response(text="ok")
        return answers.json({"ready": False, "reason": readiness.reason}, 503)
