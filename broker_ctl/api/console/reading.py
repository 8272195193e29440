"""What a page reads, from the routes of the API, for its client."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.console.calls import CallReply, Calls
from broker_ctl.api.console.forms import Forms
from broker_ctl.api.console.sessions import Sessions
from broker_ctl.api.http.access.authorization import token_in
from broker_ctl.api.http.access.broker_certificates import evidence_of
from broker_ctl.api.http.responses import ApiError
from broker_ctl.clock import Clock
from broker_ctl.console.acts.catalogue import ActRequest
from broker_ctl.console.pages.bars import Band
from broker_ctl.console.pages.frame import Frame, Row
from broker_ctl.console.pages.judgement import Known
from broker_ctl.console.render import prepare
from broker_ctl.instruments.bounds import BoundInstruments
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization.operations import Operation
from broker_ctl.security.authorization.policy import AuthorizationPolicy

CLUSTER: Final = "/control/v1/cluster"
_STATUS: Final = "/control/v1/status"
_PAUSE: Final = "/control/v1/pause"
_DRAINS: Final = "/control/v1/drains"
_CONTROLLER: Final = "/control/v1/partitions/controller"
_SETTINGS: Final = "/admin/v2/brokers/configuration/runtime"
_LOW: Final = "loadBalancerPlannerLowPercentage"
_HIGH: Final = "loadBalancerPlannerHighPercentage"
_CENT: Final = 100


class Refused(Exception):
    """The client may not read a page, or has not signed in.

    Attributes:
        reply: of the API, with its reason.
    """

    def __init__(self, reply: CallReply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class ConsoleRules:
    """Of the console.

    Attributes:
        cluster, own_id: name of the cluster, and id of this process.
        is_served: whether there is a console.
        is_read_only: whether nothing may be changed with it.
        authenticator: of clients; None: they need not sign in, and may do everything.
        policy: what roles may do; None: everything.
    """

    cluster: str
    own_id: str
    is_served: bool = True
    is_read_only: bool = False
    authenticator: Authenticator | None = None
    policy: AuthorizationPolicy | None = None


class Reading:
    """Reads for one client."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        rules: ConsoleRules,
        sessions: Sessions,
        bounds: BoundInstruments,
    ) -> None:
        self.calls = calls
        self.sessions = sessions
        self.forms = Forms(bounds)
        self.bounds = bounds
        self._is_prepared = False
        self._clock = clock
        self.rules = rules

    async def get(self, request: web.Request, target: str) -> CallReply:
        """The reply to a GET.

        Raises:
            Refused: 401 or 403.
        """
        if not self._is_prepared:
            await asyncio.to_thread(prepare)
            self._is_prepared = True
        token = self.sessions.token_of(request)
        reply = await self.calls.send(request, "GET", target, token=token)
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise Refused(reply)
        return reply

    async def require_client(self, request: web.Request) -> None:
        """Let a client pass whom the API knows, whatever its rights are.

        Raises:
            ApiError: 401, it has not signed in.
        """
        try:
            await self.get(request, _PAUSE)
        except Refused as refused:
            if refused.reply.status == HTTPStatus.UNAUTHORIZED:
                raise ApiError(401, str(refused), kind="Unauthorized") from refused

    async def at_broker(self, request: web.Request, broker: str, target: str) -> CallReply:
        """The reply of one broker to a GET, which it answers about itself.

        Raises:
            Refused: 401 or 403.
        """
        if broker == self.rules.own_id:
            return await self.get(request, target)
        token = self.sessions.token_of(request)
        reply = await self.calls.send_to(request, broker, target, token=token)
        if reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise Refused(reply)
        return reply

    async def send(self, request: web.Request, made: ActRequest, *, is_dry_run: bool) -> CallReply:
        """The reply to an act, for the client of a page."""
        target, token = made.target(is_dry_run=is_dry_run), self.sessions.token_of(request)
        return await self.calls.send(request, made.method, target, made.body, token=token)

    async def value(self, request: web.Request, target: str, default: Any) -> Any:
        """The JSON of a GET; ``default``: it cannot be answered now, or is not served here."""
        reply = await self.get(request, target)
        return reply.value if reply.is_done else default

    async def known(self, request: web.Request) -> Known:
        """How the cluster is."""
        status = await self.value(request, _STATUS, None)
        reply = await self.get(request, CLUSTER)
        cluster = reply.value if reply.is_done else None
        unreachable = reply.reason if reply.status == HTTPStatus.BAD_GATEWAY else ""
        drains = await self.value(request, _DRAINS, []) if cluster is not None else []
        controller = await self.value(request, _CONTROLLER, None)
        # Every daemon knows it, with and without a leader.
        pause = await self.value(request, _PAUSE, {}) if cluster is None else cluster
        return Known(
            cluster,
            status or self._unknown_status(),
            drains,
            controller,
            unreachable=unreachable,
            is_paused=pause.get("paused", False),
        )

    async def band(self, request: web.Request) -> Band:
        """The band of the planner, by the settings of this process."""
        try:
            settings = await self.value(request, _SETTINGS, {})
        except Refused:
            # Settings need another right than the view: without it, the defaults are drawn.
            settings = {}
        low, high = settings.get(_LOW), settings.get(_HIGH)
        return Band(int(low) / _CENT, int(high) / _CENT) if low and high else Band()

    def now_ms(self) -> int:
        """The time, in ms since 1970."""
        return self._clock.wall_ms()

    def frame(
        self, request: web.Request, page: str, cluster: Row | None, *, live: str = ""
    ) -> Frame:
        """The frame of a page for its client."""
        role, offered = self._rights(request)
        rules, taken_ms = self.rules, None if cluster is None else cluster["taken_at_ms"]
        return Frame(
            page,
            rules.cluster,
            rules.own_id,
            "" if cluster is None else cluster["leader"],
            (self._clock.wall_ms() - taken_ms) / 1000 if taken_ms else None,
            live=live,
            is_read_only=rules.is_read_only,
            has_sign_in=rules.authenticator is not None,
            role=role,
            offered=offered,
        )

    def role_of(self, request: web.Request, token: bytes) -> str:
        """The role that a token has; empty: none, or nobody has one here."""
        authenticator = self.rules.authenticator
        if authenticator is None:
            return ""
        principal = authenticator.authenticate(evidence_of(request, token))
        return "" if principal is None else principal.role

    def _rights(self, request: web.Request) -> tuple[str, frozenset[Operation]]:
        """The role of a client, and what is offered to it; the API decides again."""
        policy = self.rules.policy
        if self.rules.authenticator is None or policy is None:
            return "", frozenset(Operation)
        token = self.sessions.token_of(request).encode() or token_in(request)
        role = self.role_of(request, token)
        if not role:
            return "", frozenset()
        return role, frozenset(each for each in Operation if policy.allows_everywhere(role, each))

    def _unknown_status(self) -> Row:
        session = {"state": "unknown", "epoch": 0, "lease_remaining_s": 0.0}
        reason = "its status cannot be read"
        return {
            "broker": self.rules.own_id,
            "session": session,
            "is_ready": False,
            "reason": reason,
        }
