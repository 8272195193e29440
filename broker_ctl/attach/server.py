"""The API of a process that balances a Pulsar cluster from outside: no lookups, no ownership.

The brokers serve Pulsar's admin API; this server has the operators' API of the balancer.
"""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.control.balancing import BalancingRoutes
from broker_ctl.api.control.commands import StackRoutes
from broker_ctl.api.control.leader import LeaderRoutes
from broker_ctl.api.control.rollout import RolloutRoutes
from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import ApiRules, ControlDependencies
from broker_ctl.api.http.http_server import HttpServer
from broker_ctl.api.http.limits.requests import RequestClasses
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.http.routing import RoutedRequest
from broker_ctl.api.metrics.bindings import bind_common
from broker_ctl.api.metrics.exposition import MetricsRoutes
from broker_ctl.api.metrics.health import HealthRoutes
from broker_ctl.api.openapi.document import OpenApiRoutes
from broker_ctl.attach.cluster import ClusterNodes
from broker_ctl.attach.foreign_balancer import ClusterBalancer
from broker_ctl.attach.metadata_source import outdated_row
from broker_ctl.balancer.context.decisions import entry_row
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import BrokerCtlError
from broker_ctl.products import Product, load
from broker_ctl.security.authorization import Authorization, no_grants
from broker_ctl.security.client_limits import FailureDelays

_ENTRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedDependencies(ControlDependencies):
    """Further dependencies of a process beside a Pulsar cluster."""

    nodes: ClusterNodes
    cluster_balancer: ClusterBalancer


class AttachedApiServer:
    """Serves health, metrics and the routes of the balancer."""

    def __init__(self, dependencies: AttachedDependencies, rules: ApiRules) -> None:
        self._dependencies = dependencies
        self._request_classes = RequestClasses(rules.max_requests)
        self._rules = rules
        api = dependencies.instruments.api
        self._http = HttpServer(
            self.routes(),
            self._request_classes,
            rules,
            api,
            dependencies.clock,
            bounds=dependencies.instruments.bounds,
            authorization=Authorization(rules.policy, no_grants),
            audit=dependencies.audit,
            tracer=dependencies.tracer,
            failures=FailureDelays(
                rules.max_failure_delay_s,
                dependencies.clock,
                dependencies.instruments.security.authentication_failures,
            ),
        )

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: the address is in use, or not this machine's.
        """
        dependencies = self._dependencies
        in_flight = bind_common(dependencies, self._request_classes)
        dependencies.instruments.api.in_flight.bind(in_flight)
        dependencies.instruments.session.is_leader.bind(
            lambda: {("attach",): float(dependencies.admin() is not None)}
        )
        await self._http.start()

    async def stop(self, deadline_s: float) -> None:
        """Refuse new requests, wait this long for those in progress, cancel the rest."""
        self._request_classes.close()
        await self._http.stop(deadline_s)

    @property
    def port(self) -> int:
        """The port in the clear."""
        return self._http.port

    async def _answer(self, request: RoutedRequest) -> web.StreamResponse:
        return await self._http.answer(request)

    def routes(self) -> list[web.RouteDef]:
        """All routes."""
        dependencies, cluster = self._dependencies, self._rules.cluster
        subjects = (
            HealthRoutes(dependencies.readiness),
            BalancingRoutes(dependencies, cluster),
            LeaderRoutes(dependencies),
            RolloutRoutes(dependencies),
            StackRoutes(),
            AttachedRoutes(dependencies, cluster),
            MetricsRoutes(dependencies.instruments, cluster, dependencies.clock),
        )
        served = [route for subject in subjects for route in subject.routes()]
        if self._rules.has_console:
            console = load(Product.CONSOLE)
            served += console.routes_of(self._dependencies, self._rules, self._answer)
        return [*served, *OpenApiRoutes(served, version("broker-ctl")).routes()]


class AttachedRoutes:
    """Status of this process, live brokers and bundle owners."""

    def __init__(self, dependencies: AttachedDependencies, cluster_name: str) -> None:
        self._dependencies = dependencies
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get("/control/v1/status", self.status),
            web.get("/control/v1/owners", self.owners),
            web.get("/admin/v2/brokers", self.brokers),
            web.get("/admin/v2/brokers/leaderBroker", self.leader),
        ]

    async def status(self, _: web.Request) -> web.Response:
        """State of this process."""
        dependencies = self._dependencies
        session_epoch, remaining_ms = dependencies.authority()
        readiness, leader = dependencies.readiness(), dependencies.cluster.leader()
        held_back = await dependencies.cluster_balancer.blocked_reason()
        return responses.json(
            {
                "broker": dependencies.own_id,
                "cluster": self._cluster_name,
                "data_plane": "pulsar",
                "session": {
                    "state": dependencies.session_state(),
                    "epoch": session_epoch,
                    "lease_remaining_s": remaining_ms / 1000,
                },
                "is_leader": dependencies.admin() is not None,
                "leader": None if leader is None else {"broker": leader[0], "url": leader[1]},
                "is_ready": readiness.is_ready,
                "reason": readiness.reason,
                "held_back": held_back,
                "metadata_outdated": outdated_row(dependencies.cluster_balancer.source.outdated),
                "journal": [
                    entry_row(entry) for entry in dependencies.balancer.journal.recent(_ENTRIES)
                ],
            }
        )

    async def owners(self, request: web.Request) -> web.Response:
        """Who owns each bundle of a namespace."""
        ring = await self._dependencies.nodes.ring_of(
            Namespace.parse(request.query.get("namespace", ""))
        )
        return responses.json([await self._owner_row(bundle) for bundle in ring.bundles])

    async def _owner_row(self, bundle: Bundle) -> dict[str, Any]:
        row: dict[str, Any] = {"bundle": str(bundle), "owner": None, "token": None, "note": ""}
        try:
            owner = await self._dependencies.nodes.owner_of(bundle)
        except BrokerCtlError as error:
            return row | {"note": f"{type(error).__name__}: {error}"}
        return row if owner is None else row | {"owner": owner.urls.broker_id, "token": owner.token}

    async def brokers(self, _: web.Request) -> web.Response:
        """The live brokers of the cluster."""
        return responses.json(self._dependencies.cluster.broker_ids())

    async def leader(self, _: web.Request) -> web.Response:
        """The process that leads the balancing; 404 while none does."""
        leader = self._dependencies.cluster.leader()
        if leader is None:
            raise ApiError(404, "no broker leads at present", kind="NoLeader")
        return responses.json({"serviceUrl": leader[1], "brokerId": leader[0]})
