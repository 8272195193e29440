"""``GET /dataplane/v1/authority``: polled by a broker process, which stops without it (I1a)."""

from collections.abc import Callable

from aiohttp import web

from broker_ctl.api.http import responses


class AuthorityRoutes:
    """Serves the remaining time of the lease."""

    def __init__(self, authority: Callable[[], tuple[int, int]]) -> None:
        self._authority = authority

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/dataplane/v1/authority", self.authority)]

    async def authority(self, _: web.Request) -> web.Response:
        """Session epoch and remaining ms, which the client counts from the time of its request."""
        session_epoch, remaining_ms = self._authority()
        return responses.json({"session_epoch": session_epoch, "remaining_ms": remaining_ms})
