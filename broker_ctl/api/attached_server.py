"""The surface of a process that balances a Pulsar cluster from outside: no lookups, no ownership.

The brokers serve the admin API of Pulsar; here is what operators ask the balancing itself.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.control.balancing import BalancingRoutes
from broker_ctl.api.control.leader import LeaderRoutes
from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import ApiRules, DecisionLog, Directives, Readiness
from broker_ctl.api.http.http_server import HttpServer
from broker_ctl.api.http.limits import RequestClasses
from broker_ctl.api.http.responses import ApiError
from broker_ctl.api.metrics.bindings import follow_shown
from broker_ctl.api.metrics.exposition import MetricsRoutes
from broker_ctl.api.metrics.health import HealthRoutes
from broker_ctl.broker.history.decision_log import entry_row
from broker_ctl.clock import Clock
from broker_ctl.core.machines.session import State as SessionState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.errors import BrokerCtlError
from broker_ctl.instruments.declared import Instruments
from broker_ctl.ports import BalancerAdmin, Cluster

_ENTRIES: Final = 20


@dataclass(frozen=True, slots=True)
class AttachedDependencies:
    """Everything that is shown or steered; see `surface.parts.ShownParts`.

    Attributes:
        ring_of: the ring of a namespace; raises `NamespaceMissing`.
        owner_of: broker id and token of a bundle's owner node.
        held_back: why nothing is carried out at the moment; empty: it is.
    """

    own_id: str
    cluster: Cluster
    desk: Callable[[], BalancerAdmin | None]
    directives: Directives
    clock: Clock
    journal: DecisionLog
    readiness: Callable[[], Readiness]
    authority: Callable[[], tuple[int, int]]
    session_state: Callable[[], SessionState]
    instruments: Instruments
    ring_of: Callable[[Namespace], Awaitable[Ring]]
    owner_of: Callable[[Bundle], Awaitable[tuple[str, int] | None]]
    held_back: Callable[[], Awaitable[str]]


class AttachedApiServer:
    """Health, metrics, and the routes of the balancing."""

    def __init__(self, parts: AttachedDependencies, rules: ApiRules) -> None:
        self._parts = parts
        self._lanes = RequestClasses(rules.max_requests)
        subjects = (
            HealthRoutes(parts.readiness),
            BalancingRoutes(parts, rules.cluster),
            LeaderRoutes(parts),
            AttachedRoutes(parts, rules.cluster),
            MetricsRoutes(parts.instruments, rules.cluster),
        )
        routes = [route for subject in subjects for route in subject.routes()]
        surface = parts.instruments.surface
        self._http = HttpServer(routes, self._lanes, rules, surface, parts.clock)

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: the address is taken, or not this machine's.
        """
        parts = self._parts
        in_flight = follow_shown(parts, self._lanes)
        parts.instruments.surface.in_flight.follow(in_flight)
        parts.instruments.session.is_leader.follow(
            lambda: {("attach",): float(parts.desk() is not None)}
        )
        await self._http.start()

    async def stop(self, deadline_s: float) -> None:
        """Refuse what comes, wait so long for what is in progress, cancel the rest."""
        self._lanes.close()
        await self._http.stop(deadline_s)

    @property
    def port(self) -> int:
        """The port that is listened on in the clear."""
        return self._http.port


class AttachedRoutes:
    """How this process stands, who is there, and who owns what."""

    def __init__(self, parts: AttachedDependencies, cluster_name: str) -> None:
        self._parts = parts
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/control/v1/status", self.status),
            web.get("/control/v1/owners", self.owners),
            web.get("/admin/v2/brokers", self.brokers),
            web.get("/admin/v2/brokers/leaderBroker", self.leader),
        ]

    async def status(self, _: web.Request) -> web.Response:
        """This process."""
        parts = self._parts
        session_epoch, remaining_ms = parts.authority()
        readiness, leader = parts.readiness(), parts.cluster.leader()
        return responses.json(
            {
                "broker": parts.own_id,
                "cluster": self._cluster_name,
                "data_plane": "pulsar",
                "session": {
                    "state": parts.session_state(),
                    "epoch": session_epoch,
                    "lease_remaining_s": remaining_ms / 1000,
                },
                "is_leader": parts.desk() is not None,
                "leader": None if leader is None else {"broker": leader[0], "url": leader[1]},
                "is_ready": readiness.is_ready,
                "reason": readiness.reason,
                "held_back": await parts.held_back(),
                "journal": [entry_row(entry) for entry in parts.journal.recent(_ENTRIES)],
            }
        )

    async def owners(self, request: web.Request) -> web.Response:
        """Who owns each bundle of a namespace."""
        ring = await self._parts.ring_of(Namespace.parse(request.query.get("namespace", "")))
        return responses.json([await self._owner_row(bundle) for bundle in ring.bundles])

    async def _owner_row(self, bundle: Bundle) -> dict[str, Any]:
        row: dict[str, Any] = {"bundle": str(bundle), "owner": None, "token": 0, "note": ""}
        try:
            owner = await self._parts.owner_of(bundle)
        except BrokerCtlError as met:
            return row | {"note": f"{type(met).__name__}: {met}"}
        return row if owner is None else row | {"owner": owner[0], "token": owner[1]}

    async def brokers(self, _: web.Request) -> web.Response:
        """The cluster's brokers that live."""
        return responses.json(self._parts.cluster.broker_ids())

    async def leader(self, _: web.Request) -> web.Response:
        """Which process balances from outside; 404 while none does."""
        leader = self._parts.cluster.leader()
        if leader is None:
            raise ApiError(404, "nobody leads at the moment", kind="NoLeader")
        return responses.json({"serviceUrl": leader[1], "brokerId": leader[0]})
