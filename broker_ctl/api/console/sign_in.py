"""``/ui/sign-in``: a token that the API knows, once, for a session of the browser."""

from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from broker_ctl.api.console import html
from broker_ctl.api.console.acts import require_own_page
from broker_ctl.api.console.forms import MOST_OF_SIGN_IN
from broker_ctl.api.console.reading import Reading
from broker_ctl.console.render import render

_PATH: Final = "/ui/sign-in"
_END: Final = "/ui/sign-out"
_PROBE: Final = "/control/v1/pause"
_MOST_TOKEN: Final = 8192


class SignInRoutes:
    """Begins and ends sessions."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served."""
        if not self._reading.rules.is_served:
            return []
        return [
            web.get(_PATH, self.form),
            web.post(_PATH, self.sign_in),
            web.post(_END, self.sign_out),
        ]

    async def form(self, request: web.Request) -> web.Response:
        """The console: where a client signs in with its token."""
        return self._form(request, "", HTTPStatus.OK)

    async def sign_in(self, request: web.Request) -> web.Response:
        """The console: begin a session with a token; from a page of this server only."""
        require_own_page(request)
        form = await self._reading.forms.read(request, MOST_OF_SIGN_IN)
        token = form.get("token", "").strip()
        if not 0 < len(token) <= _MOST_TOKEN or not token.isascii() or not token.isprintable():
            return self._form(request, "This is not a token.", HTTPStatus.UNAUTHORIZED)
        reply = await self._reading.calls.send(request, "GET", _PROBE, token=token)
        if not reply.is_done:
            return self._form(request, f"Not signed in: {reply.reason}.", HTTPStatus.UNAUTHORIZED)
        response = html.see_other("/ui/")
        response.headers[hdrs.SET_COOKIE] = self._reading.sessions.begin(
            request, token, self._reading.role_of(request, token.encode())
        )
        return response

    async def sign_out(self, request: web.Request) -> web.Response:
        """The console: end the session; from a page of this server only."""
        require_own_page(request)
        response = html.see_other(_PATH)
        response.headers[hdrs.SET_COOKIE] = self._reading.sessions.end(request)
        return response

    def _form(self, request: web.Request, problem: str, status: int) -> web.Response:
        frame = self._reading.frame(request, "sign-in", None)
        return html.page(render("sign_in.html", frame=frame, problem=problem), status)
