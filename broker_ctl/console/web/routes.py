"""``/ui/``: the pages of the console, as HTML that needs no script."""

from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from broker_ctl.api.http.dependencies import ApiRules, ControlDependencies
from broker_ctl.api.http.responses import ApiError, ApiResponse
from broker_ctl.console.render import assets_by_name, render
from broker_ctl.console.web import forms, screens
from broker_ctl.console.web.acts import ActRoutes, SignInRoutes
from broker_ctl.console.web.live import ROOT as LIVE_ROOT
from broker_ctl.console.web.live import LiveRoutes
from broker_ctl.console.web.reading import (
    Answer,
    Calls,
    ConsoleReading,
    ConsoleRules,
    RefusedPage,
    forward_to_brokers,
)
from broker_ctl.console.web.screens import Show
from broker_ctl.console.web.sessions import Sessions

# The console of one process, built from its dependencies.


def build_reading(
    dependencies: ControlDependencies, rules: ApiRules, answer: Answer
) -> ConsoleReading:
    """What the console of a process reads, and acts through.

    ``answer`` answers the requests that its pages make for their clients.
    """
    forwarding = dependencies.forwarding
    forward = None if forwarding is None else forward_to_brokers(dependencies.cluster, forwarding)
    console = ConsoleRules(
        rules.cluster,
        dependencies.own_id,
        is_served=rules.has_console,
        is_read_only=rules.is_console_read_only,
        authenticator=rules.authenticator,
        policy=rules.policy,
        zookeeper=rules.zookeeper,
    )
    sessions = Sessions(dependencies.own_id, dependencies.clock)
    return ConsoleReading(
        Calls(answer, forward, dependencies.cluster.urls_of),
        dependencies.clock,
        console,
        sessions,
        dependencies.instruments.bounds,
    )


def routes_of(
    dependencies: ControlDependencies, rules: ApiRules, answer: Answer
) -> list[web.RouteDef]:
    """All routes of the console of a process."""
    reading = build_reading(dependencies, rules, answer)
    subjects = (
        ConsoleRoutes(reading),
        LiveRoutes(reading),
        ActRoutes(reading),
        SignInRoutes(reading),
    )
    return [route for subject in subjects for route in subject.routes()]


# ``/ui/``: the pages of the console, as HTML that needs no script.


ROOT: Final = "/ui/"


class ConsoleRoutes:
    """Pages and static files."""

    def __init__(self, reading: ConsoleReading) -> None:
        self._reading = reading

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served."""
        if not self._reading.rules.is_served:
            return []
        return [
            web.get("/ui", self.root),
            web.get(ROOT, self.now),
            web.get("/ui/bundles", self.bundles),
            web.get("/ui/brokers/{broker}", self.broker),
            web.get("/ui/plan", self.plan),
            web.get("/ui/history", self.history),
            web.get("/ui/drains", self.drains),
            web.get("/ui/partitions", self.partitions),
            web.get("/ui/policies", self.policies),
            web.get("/ui/settings", self.settings),
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
        return forms.static(asset)

    async def now(self, request: web.Request) -> web.Response:
        """The console: how the cluster is, what its leader does, and why."""
        return await self._show(request, "", screens.now)

    async def bundles(self, request: web.Request) -> web.Response:
        """The console: rings of namespaces, hot bundles, and one bundle in detail."""
        return await self._show(request, "bundles", screens.bundles)

    async def broker(self, request: web.Request) -> web.Response:
        """The console: usage, bundles, session and decisions of one broker."""
        return await self._show(request, "brokers", screens.broker)

    async def plan(self, request: web.Request) -> web.Response:
        """The console: what the leader would do next, what it leaves, and why."""
        return await self._show(request, "plan", screens.plan)

    async def history(self, request: web.Request) -> web.Response:
        """The console: imbalance and decisions of the last hours, by broker and bundle."""
        return await self._show(request, "history", screens.history)

    async def drains(self, request: web.Request) -> web.Response:
        """The console: brokers under drain, and the restart of every broker in steps."""
        return await self._show(request, "drains", screens.drains)

    async def partitions(self, request: web.Request) -> web.Response:
        """The console: replicated partitions, and what is wrong with them."""
        return await self._show(request, "partitions", screens.partitions)

    async def policies(self, request: web.Request) -> web.Response:
        """The console: isolation policies and failure domains, and the brokers they cover."""
        return await self._show(request, "policies", screens.policies, is_live=False)

    async def settings(self, request: web.Request) -> web.Response:
        """The console: settings in force, with their defaults and overrides."""
        return await self._show(request, "settings", screens.settings, is_live=False)

    async def glossary(self, request: web.Request) -> web.Response:
        """The console: the terms that it uses."""
        return forms.html_page(
            render("glossary.html", frame=self._reading.frame(request, "glossary", None))
        )

    async def _show(
        self,
        request: web.Request,
        page: str,
        show: Show,
        *,
        is_live: bool = True,
    ) -> web.Response:
        try:
            screen = await show(self._reading, request)
        except RefusedPage as refused:
            return self._refusal(request, refused)
        if screen.missing:
            return self._problem(request, "Nothing to show", screen.missing, HTTPStatus.OK, page)
        live = _live_address(request) if is_live else ""
        frame = self._reading.frame(request, page, screen.cluster, live=live)
        body = f"{screen.name}.html"
        shown = render(
            "page.html",
            frame=frame,
            title=screen.title,
            body=body,
            part=screen.part,
            **screen.values,
        )
        return forms.html_page(shown)

    def _refusal(self, request: web.Request, refused: RefusedPage) -> web.Response:
        status = refused.reply.status
        if status == HTTPStatus.UNAUTHORIZED:
            frame = self._reading.frame(request, "sign-in", None)
            return forms.html_page(render("sign_in.html", frame=frame, problem=""), status)
        return self._problem(request, "Not allowed", str(refused), status)

    def _problem(
        self, request: web.Request, title: str, reason: str, status: int, page: str = ""
    ) -> web.Response:
        frame = self._reading.frame(request, page, None)
        shown = render("problem.html", frame=frame, title=title, reason=reason, hint="")
        return forms.html_page(shown, status)


def _live_address(request: web.Request) -> str:
    """The address of the updates of a page."""
    url = request.rel_url
    path = LIVE_ROOT + url.raw_path.removeprefix("/ui").rstrip("/")
    return f"{path}?{url.raw_query_string}" if url.raw_query_string else path
