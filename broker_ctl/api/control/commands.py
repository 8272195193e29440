"""``/control/v1``: the leader's commands, and the state of a broker for operators."""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.request_params import object_in
from broker_ctl.balancer.context.decision_log import entry_row
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import parse_order
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import BrokerCtlError, Fenced, InvalidName, OwnershipError

_CONTROL: Final = "/control/v1"
_ENTRIES: Final = 20


class ControlRoutes:
    """Executes commands, and serves the state of this broker."""

    def __init__(self, dependencies: Dependencies, cluster_name: str) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(f"{_CONTROL}/status", self.status),
            web.get(f"{_CONTROL}/owners", self.owners),
            web.post(f"{_CONTROL}/{{verb}}", self.handle),
        ]

    async def handle(self, request: web.Request) -> web.Response:
        """Execute a command: 200 when it is done; 400, 409 and 503 name the error."""
        try:
            order = parse_order(request.match_info["verb"], await object_in(request))
        except InvalidName as met:
            return responses.error(400, "InvalidName", str(met))
        leader = self._dependencies.cluster.leader()
        note_change(
            request, after={**order.to_row(), "leader": "" if leader is None else leader[0]}
        )
        orders = self._dependencies.instruments.api.orders
        try:
            reply = await self._services.commands.handle(order)
        except BrokerCtlError as met:
            kind = type(met).__name__
            orders.add(order.verb, kind)
            if isinstance(met, OwnershipError | Fenced) and not met.can_retry:
                return responses.error(409, kind, str(met))
            raise
        orders.add(order.verb, "done")
        return responses.json(dict(reply))

    async def status(self, _: web.Request) -> web.Response:
        """State of this broker."""
        dependencies = self._dependencies
        session_epoch, remaining_ms = dependencies.authority()
        readiness, leader = dependencies.readiness(), dependencies.cluster.leader()
        return responses.json(
            {
                "broker": dependencies.own_id,
                "cluster": self._cluster_name,
                "session": {
                    "state": dependencies.session_state(),
                    "epoch": session_epoch,
                    "lease_remaining_s": remaining_ms / 1000,
                },
                "is_leader": dependencies.admin() is not None,
                "leader": None if leader is None else {"broker": leader[0], "url": leader[1]},
                "is_stopping": self._services.ownership.is_draining,
                "is_drained": dependencies.own_id in dependencies.balancer.directives.drains,
                "is_ready": readiness.is_ready,
                "reason": readiness.reason,
                "bundles": [
                    {"bundle": str(bundle), "state": held.state, "token": held.token}
                    for bundle, held in sorted(self._services.ownership.owned().items())
                ],
                "journal": [
                    entry_row(entry) for entry in dependencies.balancer.journal.recent(_ENTRIES)
                ],
            }
        )

    async def owners(self, request: web.Request) -> web.Response:
        """Who owns each bundle of a namespace; 503 at once without authority."""
        namespace = Namespace.parse(request.query.get("namespace", ""))
        with self._dependencies.authorised.held():
            ring = await self._services.namespaces.ring(namespace)
            return responses.json([await self._owner_row(bundle) for bundle in ring.bundles])

    async def _owner_row(self, bundle: Bundle) -> dict[str, Any]:
        row: dict[str, Any] = {"bundle": str(bundle), "owner": None, "token": 0, "note": ""}
        try:
            owner = await self._services.ownership.owner_of(bundle)
        except BrokerCtlError as met:
            return row | {"note": f"{type(met).__name__}: {met}"}
        return row if owner is None else row | {"owner": owner.urls.broker_id, "token": owner.token}
