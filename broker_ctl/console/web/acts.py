"""Acts of operators in the console, the sign-in among them."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from aiohttp import hdrs, web

from broker_ctl import codec
from broker_ctl.api.http.responses import ApiError
from broker_ctl.console.acts import ACTS, PLANNED, ConsoleAct, Fields, fields_of
from broker_ctl.console.render import render
from broker_ctl.console.web import forms
from broker_ctl.console.web.forms import MOST_OF_ACT, MOST_OF_SIGN_IN
from broker_ctl.console.web.reading import CallReply, ConsoleReading

# ``/ui/act``: what an operator does: first the dry run, then the same request for good.
#
# Both are requests of the client to the API, so its role decides, and the audit log names it.


_PATH: Final = "/ui/act"
# Fields that an act is about, and the page that shows it.
_PAGES: Final = (
    ("bundle", "/ui/bundles?bundle="),
    ("broker", "/ui/brokers/"),
    ("topic", "/ui/partitions?topic="),
)


class ActRoutes:
    """Shows and carries out acts."""

    def __init__(self, reading: ConsoleReading) -> None:
        self._reading = reading

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served, or read-only."""
        rules = self._reading.rules
        if not rules.is_served or rules.is_read_only:
            return []
        return [web.get(_PATH, self.preview), web.post(_PATH, self.act)]

    async def preview(self, request: web.Request) -> web.Response:
        """The console: the dry run of an act, with its command line and its request."""
        query = request.query
        # Boxes of one name are a list: with commas, as on the command line.
        given = {name: ",".join(query.getall(name)) for name in query}
        return await self._carry_out(request, given, is_dry_run=True)

    async def act(self, request: web.Request) -> web.Response:
        """The console: carry out an act; from a page of this server only."""
        require_own_page(request)
        await self._reading.require_client(request)
        given = await self._reading.forms.read(request, MOST_OF_ACT)
        return await self._carry_out(request, given, is_dry_run=False)

    async def _planned(
        self, request: web.Request, act: ConsoleAct, fields: Fields
    ) -> tuple[Fields, CallReply | None]:
        """The fields with the plan of the act, where it has one; or why there is none."""
        if act.plan is None or fields[PLANNED]:
            return fields, None
        reply = await self._reading.send(request, act.plan(fields), is_dry_run=False)
        if reply.is_done and not reply.value[PLANNED]:
            reason = "the partitions are spread evenly over these brokers already"
            reply = CallReply(HTTPStatus.CONFLICT, {"reason": reason})
        if not reply.is_done:
            return {**fields, PLANNED: "[]"}, reply
        return {**fields, PLANNED: codec.encode(reply.value[PLANNED]).decode()}, None

    async def _carry_out(
        self, request: web.Request, given: Mapping[str, str], *, is_dry_run: bool
    ) -> web.Response:
        name = given.get("act", "")
        act = ACTS.get(name)
        if act is None:
            raise ApiError(404, "the console has no such act", kind="NoAct")
        fields: Fields = fields_of(act, given)
        fields, refusal = await self._planned(request, act, fields)
        made = act.request(fields)
        reply = refusal or await self._reading.send(request, made, is_dry_run=is_dry_run)
        page = render(
            "act.html",
            frame=self._reading.frame(request, "act", None),
            act=act,
            name=name,
            fields=fields,
            made=made,
            reply=reply,
            **_found(reply),
            back=_back(fields),
            is_done=not is_dry_run,
        )
        return forms.html_page(page, HTTPStatus.OK if reply.is_done else reply.status)


def require_own_page(request: web.Request) -> None:
    """Accept what a form of this server sends; browsers name the page of each POST.

    Raises:
        ApiError: 403, another page sent it, or none.
    """
    origin = request.headers.get(hdrs.ORIGIN, "")
    if origin.partition("://")[2].lower() != request.headers.get(hdrs.HOST, "").lower():
        raise ApiError(403, "only a page of the console may send this", kind="CrossOrigin")


def _found(reply: CallReply) -> dict[str, object]:
    """Fields of a reply, and the partitions in it, which are a table."""
    value = reply.value if isinstance(reply.value, Mapping) else {}
    moved = value.get(PLANNED)
    is_table = isinstance(moved, list) and all(isinstance(each, Mapping) for each in moved)
    rows = [(key, each) for key, each in value.items() if not (is_table and key == PLANNED)]
    return {"rows": rows, "moved": moved if is_table else []}


def _back(fields: Fields) -> tuple[str, str]:
    """The page of what an act is about: its address and its name."""
    for name, page in _PAGES:
        if text := fields.get(name):
            return page + quote(text, safe=":"), text
    return "/ui/", "Now"


# ``/ui/sign-in``: a token that the API knows, once, for a session of the browser.


_SIGN_IN_PATH: Final = "/ui/sign-in"
_END: Final = "/ui/sign-out"
_PROBE: Final = "/control/v1/pause"
_MOST_TOKEN: Final = 8192


class SignInRoutes:
    """Begins and ends sessions."""

    def __init__(self, reading: ConsoleReading) -> None:
        self._reading = reading

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; none where the console is not served."""
        if not self._reading.rules.is_served:
            return []
        return [
            web.get(_SIGN_IN_PATH, self.form),
            web.post(_SIGN_IN_PATH, self.sign_in),
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
        response = forms.see_other("/ui/")
        response.headers[hdrs.SET_COOKIE] = self._reading.sessions.begin(
            request, token, self._reading.role_of(request, token.encode())
        )
        return response

    async def sign_out(self, request: web.Request) -> web.Response:
        """The console: end the session; from a page of this server only."""
        require_own_page(request)
        response = forms.see_other(_SIGN_IN_PATH)
        response.headers[hdrs.SET_COOKIE] = self._reading.sessions.end(request)
        return response

    def _form(self, request: web.Request, problem: str, status: int) -> web.Response:
        frame = self._reading.frame(request, "sign-in", None)
        return forms.html_page(render("sign_in.html", frame=frame, problem=problem), status)
