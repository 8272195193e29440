"""Updates of pages as server-sent events: at most one a second, bounded in number and bytes.

Clients of the same page and the same rights share one rendered update; each of them is admitted
again before each update, by a request of its own that costs little. A stream ends before the limit
of requests does, and the browser opens the next one.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NoReturn

from aiohttp import web

from broker_ctl.api.http.responses import ApiError, EventStream
from broker_ctl.console.pages.frame import Frame
from broker_ctl.console.render import render_in_steps
from broker_ctl.console.web import screens
from broker_ctl.console.web.forms import SAFE_HEADERS
from broker_ctl.console.web.reading import ConsoleReading, RefusedPage
from broker_ctl.console.web.screens import Show

ROOT: Final = "/ui/live"
_INTERVAL_S: Final = 1.0
# An update is shared for a little less than the interval: each client gets one that is new to it.
_SHARED_S: Final = 0.9
_LIFE_S: Final = 25.0
_MOST_STREAMS: Final = 64
# No role keeps all others out.
_MOST_OF_ROLE: Final = 48
# A client that does not take an update for this time is closed; until then its connection holds
# at most aiohttp's write buffer and this one update.
_PATIENCE_S: Final = 5.0
_ADMISSION: Final = "/control/v1/pause"


@dataclass(slots=True)
class _Shared:
    """The newest update of one page for clients of the same rights."""

    readers: int = 0
    update: bytes = b""
    made_s: float = float("-inf")
    making: asyncio.Lock = field(default_factory=asyncio.Lock)


class LiveRoutes:
    """Streams of updates."""

    def __init__(self, reading: ConsoleReading) -> None:
        self._reading = reading
        self._streams = 0
        self._refused = 0
        # As many as there are roles of clients that were admitted.
        self._of_role: Counter[str] = Counter()
        # As many as there are different streams, at most.
        self._shared: dict[tuple[object, ...], _Shared] = {}
        reading.bounds.follow(
            "console-streams",
            used=lambda: self._streams,
            limit=lambda: _MOST_STREAMS,
            refused=lambda: self._refused,
        )

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served."""
        if not self._reading.rules.is_served:
            return []
        return [
            web.get(ROOT, self.live),
            web.get(f"{ROOT}/bundles", self.bundles),
            web.get(f"{ROOT}/brokers/{{broker}}", self.broker),
            web.get(f"{ROOT}/plan", self.plan),
            web.get(f"{ROOT}/history", self.history),
            web.get(f"{ROOT}/drains", self.drains),
            web.get(f"{ROOT}/partitions", self.partitions),
        ]

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Updates of the first page in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.now)

    async def bundles(self, request: web.Request) -> web.StreamResponse:
        """Updates of the bundles in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.bundles)

    async def broker(self, request: web.Request) -> web.StreamResponse:
        """Updates of one broker in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.broker)

    async def plan(self, request: web.Request) -> web.StreamResponse:
        """Updates of the approved plan in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.approved)

    async def history(self, request: web.Request) -> web.StreamResponse:
        """Updates of the history in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.history)

    async def drains(self, request: web.Request) -> web.StreamResponse:
        """Updates of drains and rollout in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.rollout)

    async def partitions(self, request: web.Request) -> web.StreamResponse:
        """Updates of the partitions in the console, as events; 503: too many are open."""
        return await self._serve(request, screens.partitions)

    async def _serve(self, request: web.Request, show: Show) -> web.StreamResponse:
        # A client that may not see it, and gets its refusal late, takes no place from the others.
        await self._admit(request)
        frame = self._frame(request, None)
        self._begin(frame.role)
        # What the update depends on: the page, and what its client may do.
        key = request.path_qs, frame.role, frame.offered
        shared = self._shared.setdefault(key, _Shared())
        shared.readers += 1
        try:
            return await self._stream(request, show, shared)
        finally:
            self._streams -= 1
            self._of_role[frame.role] -= 1
            shared.readers -= 1
            if not shared.readers:
                del self._shared[key]

    def _begin(self, role: str) -> None:
        """Count a stream.

        Raises:
            ApiError: 503, there are too many, of all clients or of its role.
        """
        # Without authentication nobody has a role.
        most_of_role = _MOST_OF_ROLE if role else _MOST_STREAMS
        if self._streams >= _MOST_STREAMS:
            self._refuse(f"{_MOST_STREAMS} consoles are live already")
        if self._of_role[role] >= most_of_role:
            self._refuse(f"{most_of_role} consoles of this role are live already")
        self._streams += 1
        self._of_role[role] += 1

    def _refuse(self, reason: str) -> NoReturn:
        self._refused += 1
        raise ApiError(503, reason, kind="Busy")

    def _frame(self, request: web.Request, cluster: screens.Screen | None) -> Frame:
        view = None if cluster is None else cluster.cluster
        return self._reading.frame(request, "", view, live=ROOT)

    async def _stream(
        self, request: web.Request, show: Show, shared: _Shared
    ) -> web.StreamResponse:
        response = EventStream(SAFE_HEADERS)
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _LIFE_S
        try:
            while loop.time() < end_s and await self._is_admitted(request):
                update = await self._newest(request, show, shared)
                async with asyncio.timeout(_PATIENCE_S):
                    await response.write(update)
                await asyncio.sleep(_INTERVAL_S)
        except (RefusedPage, TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _admit(self, request: web.Request) -> None:
        """Judge a client that comes.

        Raises:
            ApiError: 401 or 403, or 503 where it may see the page and this daemon cannot answer
                now.
        """
        try:
            reply = await self._reading.get(request, _ADMISSION)
        except RefusedPage as refused:
            # 401 as such: its answer is delayed as that of every other failed authentication.
            status = refused.reply.status
            raise ApiError(status, "this page may not be seen", kind="Forbidden") from refused
        if not reply.is_done:
            raise ApiError(503, reply.reason, kind="Busy")

    async def _is_admitted(self, request: web.Request) -> bool:
        """Whether the client may still see it, and the daemon is not stopping."""
        try:
            reply = await self._reading.get(request, _ADMISSION)
        except RefusedPage:
            return False
        return reply.is_done

    async def _newest(self, request: web.Request, show: Show, shared: _Shared) -> bytes:
        async with shared.making:
            loop = asyncio.get_running_loop()
            if loop.time() - shared.made_s >= _SHARED_S:
                screen = await show(self._reading, request)
                frame = self._frame(request, screen)
                values = dict(screen.values)
                template = f"{screen.name}.html"
                if screen.missing:
                    template, values = "missing.html", {"reason": screen.missing}
                page = await render_in_steps(template, frame=frame, **values)
                lines = "".join(f"data: {line}\n" for line in page.splitlines())
                shared.update, shared.made_s = f"{lines}\n".encode(), loop.time()
            return shared.update
