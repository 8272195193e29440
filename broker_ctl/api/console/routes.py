"""``/ui/``: the pages of the console, as HTML that needs no script."""

from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from broker_ctl.api.console import html
from broker_ctl.api.console.reading import Reading, Refused
from broker_ctl.api.http.responses import ApiError, ApiResponse
from broker_ctl.console.assets import assets_by_name
from broker_ctl.console.pages.now import now_page
from broker_ctl.console.render import render

ROOT: Final = "/ui/"


class ConsoleRoutes:
    """Pages and static files."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served."""
        if not self._reading.rules.is_served:
            return []
        return [
            web.get("/ui", self.root),
            web.get(ROOT, self.now),
            web.get("/ui/glossary", self.glossary),
            web.get("/ui/static/{name}", self.static),
        ]

    async def root(self, _: web.Request) -> web.Response:
        """To the first page of the console."""
        return ApiResponse(status=308, headers={hdrs.LOCATION: ROOT})

    async def static(self, request: web.Request) -> web.Response:
        """A style sheet, script or library of the console; its name contains its hash."""
        asset = assets_by_name().get(request.match_info["name"])
        if asset is None:
            raise ApiError(404, "the console has no such file", kind="NoFile")
        return html.static(asset)

    async def now(self, request: web.Request) -> web.Response:
        """The console: how the cluster is, what its leader does, and why."""
        reading = self._reading
        try:
            known, band = await reading.known(request), await reading.band(request)
        except Refused as refused:
            return self._refusal(refused)
        frame = reading.frame("", known.cluster)
        values = {"now": now_page(known, band), "status": known.status, "cluster": known.cluster}
        return html.page(render("now.html", frame=frame, band=band, **values))

    async def glossary(self, _: web.Request) -> web.Response:
        """The terms that the console uses."""
        return html.page(render("glossary.html", frame=self._reading.frame("glossary", None)))

    def _refusal(self, refused: Refused) -> web.Response:
        status = refused.reply.status
        title = "Sign in first" if status == HTTPStatus.UNAUTHORIZED else "Not allowed"
        return html.page(
            render(
                "problem.html",
                frame=self._reading.frame("", None),
                title=title,
                reason=str(refused),
                hint="",
            ),
            status,
        )
