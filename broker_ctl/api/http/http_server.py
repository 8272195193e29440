"""The HTTP server of an API: its routes behind the dispatcher, in the clear and over TLS."""

import logging
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from broker_ctl.api.http.access.audit import AuditTrail
from broker_ctl.api.http.access.authorization import Authorizer
from broker_ctl.api.http.access.cross_origin import CrossOriginProtection
from broker_ctl.api.http.access.route_rules import PortFilter, routes_of_ports
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.dispatcher import Dispatcher
from broker_ctl.api.http.limits import connections
from broker_ctl.api.http.limits.acceptor import PlainPorts
from broker_ctl.api.http.limits.connections import Bodies, BoundedServer
from broker_ctl.api.http.limits.handshakes import Handshakes
from broker_ctl.api.http.limits.rates import FailedAuthentications, HttpRates
from broker_ctl.api.http.limits.requests import LoopLag, Overload, RequestClasses, Turns
from broker_ctl.api.http.routing import RoutedRequest, RouteTable
from broker_ctl.clock import Clock
from broker_ctl.errors import StartError
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.instruments.declared import ApiInstruments
from broker_ctl.security.audit.log import AuditLog
from broker_ctl.security.authorization import Authorization
from broker_ctl.security.client_limits import FailureDelays, RequestRates
from broker_ctl.settings.publishing import KEYS, HttpPort, PortRole
from broker_ctl.tasks import TaskScope, wait_until
from broker_ctl.tracing.spans import Tracer

log = logging.getLogger(__name__)

# How long cancelled requests may take to end.
_CANCEL_S: Final = 0.5
_POLL_S: Final = 0.02
# How long the rest of a rejected body is read, so that its sender can read the response.
_LINGER_S: Final = 1.0
# As on the binary port: a client that finds the queue full tries again after a second, and so does
# a health check. The kernel takes as many as it allows.
_BACKLOG: Final = 4096


class HttpServer:
    """Ports for clients, and ports of their own for administration and metrics where set.

    Each of them has its own limit of connections; the limits of requests are shared.
    """

    def __init__(
        self,
        routes: Iterable[web.AbstractRouteDef],
        request_classes: RequestClasses,
        rules: ApiRules,
        instruments: ApiInstruments,
        clock: Clock,
        *,
        bounds: BoundInstruments,
        authorization: Authorization,
        audit: AuditLog,
        failures: FailureDelays,
        tracer: Tracer | None = None,
    ) -> None:
        table = RouteTable(routes)
        self._routes_of_ports = routes_of_ports(table, rules.ports)
        bodies = Bodies(rules.max_body_bytes)
        rates = RequestRates(rules.rates, "http", clock, instruments.rate_limited)
        failed = FailedAuthentications(failures)
        self._lag = LoopLag(clock, instruments.loop_lag_s, rules.max_loop_lag_s)
        self._dispatcher = Dispatcher(
            table,
            request_classes,
            Overload(Turns(clock), self._lag),
            CrossOriginProtection(rules.hosts, clock),
            Authorizer(
                rules.authenticator,
                authorization,
                rules.dataplane_secret,
                clock,
                rules.peers,
                brokers=rules.broker_certificates,
                authenticates_metrics=rules.authenticates_metrics,
            ),
            audit=AuditTrail(audit, clock),
            rates=HttpRates(
                rates,
                is_signed=rules.peers is not None,
                brokers=rules.broker_certificates,
            ),
            failures=failed,
            requests=instruments.requests,
            bodies=bodies,
            tracer=tracer,
        )
        self._request_classes = request_classes
        self._rules, self._instruments = rules, instruments
        self._tasks = TaskScope("HTTP server")
        self._runners: list[web.ServerRunner] = []
        self._servers: list[BoundedServer] = []
        self._plain = PlainPorts("HTTP connections")
        self.handshakes = Handshakes()
        self._bounds = bounds
        bodies.show(bounds)
        rates.show(bounds)
        failed.show(bounds)
        self.handshakes.show(bounds, "http-handshakes")
        for name, limit in request_classes.by_name.items():
            limit.show(bounds, f"http-requests-{name}")
        instruments.connections.bind(lambda: sum(map(len, self._servers)))
        self._ports: dict[tuple[PortRole, str], int] = {}

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: an address is in use, or not this machine's.
        """
        try:
            for port, routes in zip(self._rules.ports, self._routes_of_ports, strict=True):
                await self._serve(port, routes)
        except StartError:
            await self._close()
            raise
        self._tasks.keep(self._lag.measure(), "loop lag")

    async def stop(self, deadline_s: float) -> None:
        """Wait up to ``deadline_s`` for requests in progress, then cancel them.

        The request classes are closed already, so no new request begins.
        """

        async def is_idle() -> bool:
            return self._request_classes.in_flight == 0

        if not await wait_until(is_idle, deadline_s, _POLL_S):
            log.warning(
                "shutdown deadline reached: cancelling %d HTTP requests in progress",
                self._request_classes.in_flight,
            )
        await self._close()
        self._dispatcher.close()
        await self._tasks.close()

    async def answer(self, request: RoutedRequest) -> web.StreamResponse:
        """Answer a request that a handler makes for its client, as at the client's port."""
        role = PortRole.ADMIN if request.is_at_admin_port else PortRole.PUBLIC
        port = next(port for port in self._routes_of_ports if port.role is role)
        return await self._dispatcher.answer(port, request)

    @property
    def port(self) -> int:
        """The port in the clear."""
        return self.port_of(PortRole.PUBLIC)

    @property
    def port_tls(self) -> int:
        """The port of TLS."""
        return self._ports[PortRole.PUBLIC, "HTTPS"]

    def port_of(self, role: PortRole) -> int:
        """The port in the clear of a role."""
        return self._ports[role, "HTTP"]

    async def _serve(self, port: HttpPort, routes: PortFilter) -> None:
        rules = self._rules
        # No access log: a path may name a tenant's topic.
        server = self._dispatcher.server(
            routes,
            access_log=None,
            lingering_time=_LINGER_S,
            idle_timeout_s=rules.idle_timeout_s,
            max_connections=connections.cap_and_log(
                rules.max_connections,
                connections.HTTP / len(rules.ports),
                "HTTP",
                "maxHttpServerConnections",
            ),
            max_of_address=rules.max_connections_of_address,
            refused=self._instruments.refused_connections,
            unread=self._instruments.unread_connections,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_CANCEL_S)
        await runner.setup()
        self._runners.append(runner)
        self._servers.append(server)
        self._show(server, port.role)
        await self._listen(server, port, "HTTP")
        await self._listen(server, port, "HTTPS")

    def _show(self, server: BoundedServer, role: PortRole) -> None:
        name = "http" if role is PortRole.PUBLIC else f"http-{role}"
        self._bounds.follow(
            f"{name}-connections",
            used=lambda: len(server),
            limit=lambda: server.max_connections,
            refused=lambda: server.refused,
        )

    async def _listen(self, server: BoundedServer, port: HttpPort, scheme: str) -> None:
        is_tls, keys = scheme == "HTTPS", KEYS[port.role]
        number, key = (port.port_tls, keys.port_tls) if is_tls else (port.port, keys.port)
        if number is None:
            return
        tls = self._rules.tls if is_tls else None
        try:
            if tls is None:
                found = await self._plain.listen(server, port.address, number, _BACKLOG)
            else:
                found = await self.handshakes.listen(server, tls, port.address, number, _BACKLOG)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(
                f"cannot listen on {port.address} port {number}: {reason}; "
                f"see {keys.address} and {key}"
            ) from error
        self._ports[port.role, scheme] = found
        what = scheme if port.role is PortRole.PUBLIC else f"{scheme} for {port.role}"
        log.info("serving %s on %s port %d", what, port.address, found)

    async def _close(self) -> None:
        await self._plain.close()
        await self.handshakes.close()
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
        self._servers.clear()
