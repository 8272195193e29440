"""``/control/v1/rollout``: restarts of the brokers of a cluster, for operators and their driver.

The leader does what is the cluster's; any other broker redirects to it.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.access.authorization import operator_of, record_claimed_operator
from broker_ctl.api.http.dependencies import ControlDependencies
from broker_ctl.api.http.partition_params import flag_in
from broker_ctl.api.http.redirects import redirect_to_leader
from broker_ctl.api.http.request_params import is_dry_run, object_in, supports_dry_run, whole_number
from broker_ctl.api.http.responses import ApiError
from broker_ctl.balancer.admin.rollout import ACTS, REPORTS, RolloutOperations, RolloutRequest
from broker_ctl.core.cluster.directives import MOST_REASON, MOST_WHO
from broker_ctl.core.rollout.forecast import RolloutScope
from broker_ctl.core.rollout.rollout import MOST_NOTE, RolloutTerms

_ROLLOUT: Final = "/control/v1/rollout"
_MOST_BROKERS: Final = 5000
_MOST_VERSION: Final = 100
_MOST_NAME: Final = 300
_GATE_S: Final = 300
_MOST_GATE_S: Final = 86_400
_UNAVAILABLE: Final = ("1", "zone")


class RolloutRoutes:
    """Rollouts, for operators and for the driver."""

    def __init__(self, dependencies: ControlDependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_ROLLOUT, self.current),
            web.put(_ROLLOUT, self.begin),
            web.get(f"{_ROLLOUT}/plan", self.plan),
            web.post(f"{_ROLLOUT}/{{act}}", self.act),
            web.put(f"{_ROLLOUT}/brokers/{{broker}}", self.note_restart),
        ]

    async def plan(self, request: web.Request) -> web.Response:
        """Order, moves and greatest load of a rollout; ``refusal``: why it would not begin.

        ``brokers`` names some, separated by commas; ``max_unavailable`` is 1 or ``zone``;
        ``canary`` names the broker that restarts first.
        """
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        names = request.query.get("brokers", "").split(",")
        scope = _scope_of(names, dict(request.query))
        return responses.json(await operations.forecast(scope))

    async def current(self, request: web.Request) -> web.Response:
        """The rollout in progress, or the last one; 404: there was none."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        return responses.json(await operations.current())

    @supports_dry_run
    async def begin(self, request: web.Request) -> web.Response:
        """The rollout that begins; 409: another is in progress, or the rest lacks room.

        The body has ``brokers``, ``max_unavailable``, ``canary``, ``version``, ``gate_timeout_s``,
        ``accept_overload``, ``by`` and ``reason``. A dry run returns the plan.
        """
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        body = await object_in(request)
        names = body.get("brokers", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ApiError(400, "brokers is a list of broker ids")
        terms = RolloutTerms(
            _text(body, "version", _MOST_VERSION), _gate_s(body), flag_in(body, "accept_overload")
        )
        who, why = _operator_and_reason(request, body)
        wanted = RolloutRequest(_scope_of(names, body), terms, who, why)
        row = await operations.begin(wanted, is_dry_run=is_dry_run(request))
        note_change(request, after=row)
        return responses.json(row)

    @supports_dry_run
    async def act(self, request: web.Request) -> web.Response:
        """The rollout after ``pause``, ``resume`` or ``abort``; 409: it does not fit its state."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        act = request.match_info["act"]
        if act not in ACTS:
            raise ApiError(404, f"a rollout knows {', '.join(ACTS)}")
        who, why = _operator_and_reason(request, await object_in(request))
        row = await operations.act(act, who, why, is_dry_run=is_dry_run(request))
        note_change(request, after=row)
        return responses.json(row)

    async def note_restart(self, request: web.Request) -> web.Response:
        """The rollout after its driver said ``event`` of a broker, with a ``detail``.

        Events are ``restart_began``, ``restarted``, ``healthy`` and ``failed``.
        """
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        body = await object_in(request)
        event, detail = _text(body, "event", _MOST_NAME), _detail(body)
        if event not in REPORTS:
            raise ApiError(400, f"event is one of {', '.join(REPORTS)}")
        row = await operations.note_restart(request.match_info["broker"], event, detail)
        note_change(request, after={"event": event, "detail": detail})
        return responses.json(row)

    def _operations(self) -> RolloutOperations | None:
        admin = self._dependencies.admin()
        return None if admin is None else admin.operations.rollout

    def _to_leader(self, request: web.Request) -> web.Response:
        return redirect_to_leader(request, self._dependencies.cluster, self._dependencies.own_id)


def _scope_of(names: list[str], fields: dict[str, Any]) -> RolloutScope:
    brokers = tuple(stripped for name in names if (stripped := name.strip()))
    if len(brokers) > _MOST_BROKERS:
        raise ApiError(400, f"at most {_MOST_BROKERS} brokers can be named")
    unavailable = fields.get("max_unavailable", "1")
    if unavailable not in _UNAVAILABLE:
        raise ApiError(400, "max_unavailable is 1 or zone")
    return RolloutScope(brokers, unavailable == "zone", _text(fields, "canary", _MOST_NAME))


def _gate_s(body: dict[str, Any]) -> int:
    value = whole_number(body.get("gate_timeout_s", _GATE_S))
    if value is None or not 1 <= value <= _MOST_GATE_S:
        raise ApiError(400, f"gate_timeout_s is a whole number from 1 to {_MOST_GATE_S}")
    return value


def _operator_and_reason(request: web.Request, body: dict[str, Any]) -> tuple[str, str]:
    record_claimed_operator(request, _text(body, "by", MOST_WHO))
    return operator_of(request), _text(body, "reason", MOST_REASON)


def _detail(body: dict[str, Any]) -> str:
    """What a command has said: of any length, and with line ends."""
    detail = body.get("detail", "")
    if not isinstance(detail, str):
        raise ApiError(400, "detail is a text")
    return "".join(each if each.isprintable() else " " for each in detail[:MOST_NOTE])


def _text(body: dict[str, Any], name: str, most: int) -> str:
    text = body.get(name, "")
    if not isinstance(text, str) or len(text) > most or not (text.isprintable() or not text):
        raise ApiError(400, f"{name} is a text of at most {most} printable characters")
    return text
