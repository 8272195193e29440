"""``GET /dataplane/v1/authority``: what a broker process pulls, to stop by itself (I1a)."""

from collections.abc import Callable

from aiohttp import web

from broker_ctl.api.http import responses


class AuthorityRoutes:
    """For how long acts may be started."""

    def __init__(self, authority: Callable[[], tuple[int, int]]) -> None:
        self._authority = authority

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/dataplane/v1/authority", self.answer)]

    async def answer(self, _: web.Request) -> web.Response:
        """Counted by the asker from the moment at which it asked."""
        session_epoch, remaining_ms = self._authority()
        return responses.json({"session_epoch": session_epoch, "remaining_ms": remaining_ms})
