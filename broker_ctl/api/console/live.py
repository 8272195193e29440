"""Updates of the first page as server-sent events: one a second, bounded in number and bytes.

All clients share one rendered update; each of them is admitted again before each update, by a
request of its own that costs little. A stream ends before the limit of requests does, and the
browser opens the next one.
"""

import asyncio
from typing import Final

from aiohttp import hdrs, web

from broker_ctl.api.console import screens
from broker_ctl.api.console.html import SAFE_HEADERS
from broker_ctl.api.console.reading import Reading, Refused
from broker_ctl.api.console.routes import LIVE
from broker_ctl.api.http.responses import ApiError
from broker_ctl.console.render import render_in_steps

_INTERVAL_S: Final = 1.0
# An update is shared for a little less than the interval: each client gets one that is new to it.
_SHARED_S: Final = 0.9
_LIFE_S: Final = 25.0
_MOST_STREAMS: Final = 64
# A client that does not take an update for this time is closed; until then its connection holds
# at most aiohttp's write buffer and this one update.
_PATIENCE_S: Final = 5.0
_ADMISSION: Final = "/control/v1/pause"


class LiveRoutes:
    """Streams of updates."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._streams = 0
        self._update = b""
        self._made_s = float("-inf")
        self._making = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served."""
        return [web.get(LIVE, self.live)] if self._reading.rules.is_served else []

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Updates of the console's first page, as server-sent events; 503: too many are open."""
        if self._streams >= _MOST_STREAMS:
            raise ApiError(503, f"{_MOST_STREAMS} consoles are live already", kind="Busy")
        self._streams += 1
        try:
            return await self._stream(request)
        finally:
            self._streams -= 1

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if not await self._is_admitted(request):
            raise ApiError(403, "this page may not be seen", kind="Forbidden")
        response = web.StreamResponse(headers=SAFE_HEADERS)
        response.content_type = "text/event-stream"
        response.headers[hdrs.CACHE_CONTROL] = "no-store"
        response.headers[hdrs.SERVER] = "broker-ctl"
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _LIFE_S
        try:
            while loop.time() < end_s and await self._is_admitted(request):
                update = await self._newest(request)
                async with asyncio.timeout(_PATIENCE_S):
                    await response.write(update)
                await asyncio.sleep(_INTERVAL_S)
        except (Refused, TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _is_admitted(self, request: web.Request) -> bool:
        """Whether the client may still see it, and the daemon is not stopping."""
        try:
            reply = await self._reading.get(request, _ADMISSION)
        except Refused:
            return False
        return reply.is_done

    async def _newest(self, request: web.Request) -> bytes:
        async with self._making:
            loop = asyncio.get_running_loop()
            if loop.time() - self._made_s >= _SHARED_S:
                screen = await screens.now(self._reading, request)
                frame = self._reading.frame(request, "", screen.cluster, live=LIVE)
                page = await render_in_steps("now_body.html", frame=frame, **screen.values)
                lines = "".join(f"data: {line}\n" for line in page.splitlines())
                self._update, self._made_s = f"{lines}\n".encode(), loop.time()
            return self._update
