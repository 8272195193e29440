"""``/openapi.json``: the description of what this server serves."""

from collections.abc import Sequence

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.openapi.document import build
from broker_ctl.codec import encode


class OpenApiRoutes:
    """Serves the document; it is built when it is first asked for."""

    def __init__(self, routes: Sequence[web.RouteDef], version: str) -> None:
        self._routes = (*routes, *self.routes())
        self._version = version
        self._document: bytes | None = None

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get("/openapi.json", self.document)]

    async def document(self, _: web.Request) -> web.Response:
        """This description of the API, in OpenAPI 3.1."""
        if self._document is None:
            self._document = encode(build(self._routes, self._version))
        return responses.encoded_json(self._document)
