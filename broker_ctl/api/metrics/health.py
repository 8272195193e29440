"""``/livez`` and ``/readyz``, and Pulsar's two health checks."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.api.http.responses import ApiError


class HealthRoutes:
    """A process that answers is alive; a daemon that is not ready gives its reason.

    Args:
        status_file: ``statusFilePath``; empty: none.
    """

    def __init__(self, readiness: Callable[[], Readiness], status_file: str = "") -> None:
        self._readiness = readiness
        self._status_file = status_file

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get("/livez", self.live),
            web.get("/readyz", self.ready),
            web.get("/admin/v2/brokers/health", self.healthy),
            web.get("/admin/v2/brokers/ready", self.healthy),
            web.get("/status.html", self.status),
        ]

    async def live(self, _: web.Request) -> web.Response:
        """The event loop runs."""
        return responses.text("ok")

    async def ready(self, _: web.Request) -> web.Response:
        """200, with a note while ZooKeeper is away, or 503 with the reason."""
        return _ready_response(self._readiness(), has_note=True)

    async def healthy(self, _: web.Request) -> web.Response:
        """200 with "ok", which pulsar-admin expects, or 503 with the reason."""
        return _ready_response(self._readiness(), has_note=False)

    async def status(self, _: web.Request) -> web.Response:
        """200 while the broker is ready and the operator's file is there, else 404."""
        file, readiness = self._status_file, self._readiness()
        if not file:
            raise ApiError(404, "statusFilePath is not set")
        if not readiness.is_ready:
            raise ApiError(404, f"not ready: {readiness.reason}")
        if not await asyncio.to_thread(Path(file).exists):
            raise ApiError(404, "the file of statusFilePath was taken away")
        return responses.text("OK")


def _ready_response(readiness: Readiness, *, has_note: bool) -> web.Response:
    if not readiness.is_ready:
        return responses.json({"ready": False, "reason": readiness.reason}, 503)
    return responses.text(f"ok: {readiness.reason}" if has_note and readiness.reason else "ok")
