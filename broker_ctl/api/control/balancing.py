"""``/control/v1``: pause, drains, plans and history, for operators.

Any broker writes a pause, so that it works while there is no leader. All else is done by the
leader: any other broker redirects to it.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.access.authorization import operator_of, record_claimed_operator
from broker_ctl.api.http.dependencies import ControlDependencies
from broker_ctl.api.http.partition_params import flag_in
from broker_ctl.api.http.redirects import redirect_to_leader
from broker_ctl.api.http.request_params import (
    flag,
    is_dry_run,
    object_in,
    supports_dry_run,
    whole_number_in,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.balancer.admin.operations import BalancerOperations, HistoryFilter
from broker_ctl.core.cluster.directives import MOST_REASON, MOST_WHO, AuditInfo, DrainTerms, Pause
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.history.rows import MOST_POINTS
from broker_ctl.errors import OrderConflict

_PAUSE: Final = "/control/v1/pause"
_DRAINS: Final = "/control/v1/drains"
_PLAN: Final = "/control/v1/plan"
_PLANS: Final = "/control/v1/plans"
_PROPOSALS: Final = "/control/v1/proposals"
_HISTORY: Final = "/control/v1/history"
_IMBALANCE: Final = "/control/v1/imbalance"
_KINDS: Final = ("assign", "transfer", "split", "merge", "skip")
_RESULTS: Final = ("done", "failed", "dry_run", "paused", "held_back", "skipped")
_MOST_ENTRIES: Final = 1000
_ENTRIES: Final = 100
# Digits of a SHA-256.
_DIGEST: Final = 64
# 9999-12-31T23:59:59.999Z.
_MOST_MS: Final = 253_402_300_799_999


class BalancingRoutes:
    """Operators' actions on the cluster as a whole."""

    def __init__(self, dependencies: ControlDependencies, cluster: str) -> None:
        self._dependencies = dependencies
        self._cluster = cluster

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_PAUSE, self.paused),
            web.put(_PAUSE, self.pause),
            web.delete(_PAUSE, self.resume),
            web.get(_DRAINS, self.drains),
            web.put(f"{_DRAINS}/{{broker}}", self.drain),
            web.delete(f"{_DRAINS}/{{broker}}", self.undrain),
            web.get(_PLAN, self.plan),
            web.get(_PLANS, self.plans),
            web.post(_PLANS, self.plan_of_file),
            web.get(f"{_PLANS}/{{plan}}", self.proposed_plan),
            web.get(_PROPOSALS, self.proposals),
            web.post(f"{_PLANS}/{{plan}}", self.propose),
            web.put(f"{_PLANS}/{{plan}}", self.approve),
            web.delete(f"{_PLANS}/{{plan}}", self.stop_plan),
            web.get(_HISTORY, self.history),
            web.get(_IMBALANCE, self.imbalance),
        ]

    # Pause.

    async def paused(self, _: web.Request) -> web.Response:
        """Whether the leader is paused; since when, by whom and why."""
        pause = self._dependencies.balancer.directives.pause
        return responses.json({"paused": False} if pause is None else pause.to_row())

    @supports_dry_run
    async def pause(self, request: web.Request) -> web.Response:
        """The pause in force after the request; an earlier one is unchanged."""
        who, why = await _operator_and_reason(request)
        order = AuditInfo.of(self._dependencies.clock.wall_ms(), who, why)
        directives = self._dependencies.balancer.directives
        if is_dry_run(request):
            return responses.json((directives.pause or Pause(order)).to_row())
        before = None if directives.pause is None else directives.pause.to_row()
        pause = (await directives.begin_pause(order)).to_row()
        note_change(request, before=before, after=pause)
        return responses.json(pause)

    @supports_dry_run
    async def resume(self, request: web.Request) -> web.Response:
        """The pause that was ended; 200 also where there was none; 409: a rollout needs it."""
        directives = self._dependencies.balancer.directives
        if directives.pause is not None and directives.pause.rollout_id:
            raise OrderConflict(
                f"rollout {directives.pause.rollout_id} pauses the balancing until it ends: see "
                "broker-ctl rollout status, or end it with broker-ctl rollout abort"
            )
        ended = directives.pause if is_dry_run(request) else await directives.end_pause()
        row = {} if ended is None else ended.to_row()
        note_change(request, before=row or None)
        return responses.json({**row, "paused": False, "was_paused": ended is not None})

    # Drains.

    async def drains(self, request: web.Request) -> web.Response:
        """Progress of each drain, and the scheduled ones; 307 to the leader."""
        operations = self._operations()
        return (
            self._to_leader(request) if operations is None else responses.json(operations.drains())
        )

    @supports_dry_run
    async def drain(self, request: web.Request) -> web.Response:
        """Progress of the drain; 404: not alive; 409: too little room elsewhere, unless forced.

        ``begins_ms`` and ``ends_ms`` in the body are in ms since 1970; ``until_restart`` ends the
        drain when the broker has restarted.
        """
        operations, broker_id = self._operations(), request.match_info["broker"]
        if operations is None:
            return self._to_leader(request)
        is_known = any(row["broker"] == broker_id for row in operations.drains())
        if not is_known and self._dependencies.cluster.urls_of(broker_id) is None:
            raise ApiError(404, f"{broker_id[:200]!r} is not a live broker", kind="NoBroker")
        who, why = await _operator_and_reason(request)
        terms = await _terms_in(request)
        reply = await operations.drain(broker_id, who, why, terms, is_dry_run=is_dry_run(request))
        note_change(request, after=dict(reply))
        return responses.json(dict(reply))

    @supports_dry_run
    async def undrain(self, request: web.Request) -> web.Response:
        """Whether the broker was drained; 404: it was not, and is not alive."""
        operations, broker_id = self._operations(), request.match_info["broker"]
        if operations is None:
            return self._to_leader(request)
        if is_dry_run(request):
            was_drained = any(row["broker"] == broker_id for row in operations.drains())
        else:
            drained = [row for row in operations.drains() if row["broker"] == broker_id]
            note_change(request, before=drained[0] if drained else None)
            was_drained = await operations.undrain(broker_id)
        if not was_drained and self._dependencies.cluster.urls_of(broker_id) is None:
            raise ApiError(404, f"{broker_id[:200]!r} is not a live broker", kind="NoBroker")
        return responses.json({"broker": broker_id, "was_drained": was_drained})

    # Plans.

    async def plan(self, request: web.Request) -> web.Response:
        """The next cycle's decisions; ``verbose`` adds each bundle left in place, and why.

        With ``heal_policies``, the moves of all bundles off brokers that isolation policies do not
        allow, in their place. Nothing is proposed by asking.
        """
        operations, is_verbose = self._operations(), flag(request, "verbose")
        if operations is None:
            return self._to_leader(request)
        make = operations.healing_plan if flag(request, "heal_policies") else operations.plan
        return responses.json(dict(await make(is_verbose=is_verbose)))

    async def proposed_plan(self, request: web.Request) -> web.Response:
        """A plan that may be approved, with its digest and proposer; 404: not shown lately."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        return responses.json(dict(operations.proposals.plan(request.match_info["plan"])))

    @supports_dry_run
    async def plan_of_file(self, request: web.Request) -> web.Response:
        """The executable part of a placement plan; 409: altered, too old, or of another cluster."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        file = PlanFile.of_row(await object_in(request))
        file.check(self._cluster, self._dependencies.clock.wall_ms())
        return responses.json(dict(await operations.plan_of_file(file)))

    async def plans(self, request: web.Request) -> web.Response:
        """The plan in execution, or the last one."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        return responses.json(await operations.plans())

    async def proposals(self, request: web.Request) -> web.Response:
        """Plans that wait for an approval: who has proposed each, and when that ends."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        return responses.json(operations.proposals.open())

    @supports_dry_run
    async def propose(self, request: web.Request) -> web.Response:
        """Put a plan up for approval; 404: not shown lately; 409: empty, or another's proposal."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        who, why = await _operator_and_reason(request)
        plan_id, is_dry = request.match_info["plan"], is_dry_run(request)
        row = dict(await operations.proposals.propose(plan_id, who, why, is_dry_run=is_dry))
        note_change(request, after=row)
        return responses.json(row)

    @supports_dry_run
    async def approve(self, request: web.Request) -> web.Response:
        """Progress of the plan; 404: not shown lately; 409: empty, or another is executed.

        With ``digest`` in the body, 409 if the plan is not the one that was seen. 403: another role
        has to propose or to approve it (``dualAuthorizationEnabled``), which takes the digest.
        """
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        who, why = await _operator_and_reason(request)
        plan_id = request.match_info["plan"]
        digest, is_dry = _text(await object_in(request), "digest", _DIGEST), is_dry_run(request)
        row = dict(await operations.approve(plan_id, who, why, digest, is_dry_run=is_dry))
        note_change(request, after=row)
        return responses.json(row)

    @supports_dry_run
    async def stop_plan(self, request: web.Request) -> web.Response:
        """Progress of the plan; 404: no such plan was approved; 409: it has ended."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        who, why = await _operator_and_reason(request)
        plan_id = request.match_info["plan"]
        row = dict(await operations.stop_plan(plan_id, who, why, is_dry_run=is_dry_run(request)))
        note_change(request, after=row)
        return responses.json(row)

    # History.

    async def history(self, request: web.Request) -> web.Response:
        """The newest decisions with their results, newest first."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        return responses.json(operations.history(_filter_in(request)))

    async def imbalance(self, request: web.Request) -> web.Response:
        """Imbalance of the cluster in this leader's cycles, in ``points``, the oldest first."""
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        most = whole_number_in(request, "points", MOST_POINTS, MOST_POINTS)
        return responses.json(operations.imbalance(most))

    def _operations(self) -> BalancerOperations | None:
        admin = self._dependencies.admin()
        return None if admin is None else admin.operations

    def _to_leader(self, request: web.Request) -> web.Response:
        return redirect_to_leader(request, self._dependencies.cluster, self._dependencies.own_id)


async def _operator_and_reason(request: web.Request) -> tuple[str, str]:
    """Operator and reason of a request. With authentication on, the token gives the operator."""
    body = await object_in(request)
    record_claimed_operator(request, _text(body, "by", MOST_WHO))
    return operator_of(request), _text(body, "reason", MOST_REASON)


async def _terms_in(request: web.Request) -> DrainTerms:
    body = await object_in(request)
    return DrainTerms(
        _time_ms(body, "begins_ms"),
        _time_ms(body, "ends_ms"),
        flag_in(body, "until_restart"),
        flag(request, "force"),
    )


def _time_ms(body: dict[str, Any], name: str) -> int:
    value = body.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_MS:
        raise ApiError(400, f"{name} is a whole number of ms since 1970")
    return value


def _text(body: dict[str, Any], name: str, most: int) -> str:
    text = body.get(name, "")
    if not isinstance(text, str) or len(text) > most or not (text.isprintable() or not text):
        raise ApiError(400, f"{name} is a text of at most {most} printable characters")
    return text


def _filter_in(request: web.Request) -> HistoryFilter:
    kind = request.query.get("kind") or None
    if kind is not None and kind not in _KINDS:
        raise ApiError(400, f"kind is one of {', '.join(_KINDS)}")
    result = request.query.get("result") or None
    if result is not None and result not in _RESULTS:
        raise ApiError(400, f"result is one of {', '.join(_RESULTS)}")
    return HistoryFilter(
        kind=kind,
        result=result,
        broker=request.query.get("broker") or None,
        bundle=request.query.get("bundle") or None,
        since_ms=whole_number_in(request, "since_ms", 0, _MOST_MS)
        if request.query.get("since_ms")
        else None,
        until_ms=whole_number_in(request, "until_ms", 0, _MOST_MS)
        if request.query.get("until_ms")
        else None,
        limit=whole_number_in(request, "limit", _ENTRIES, _MOST_ENTRIES),
    )
