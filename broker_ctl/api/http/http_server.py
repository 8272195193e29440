"""The HTTP server of an API: its routes behind the dispatcher, in the clear and over TLS."""

import logging
from collections.abc import Iterable
from ssl import SSLContext
from typing import Final

from aiohttp import web

from broker_ctl.api.http.access.audit import AuditTrail
from broker_ctl.api.http.access.authorization import Authorizer
from broker_ctl.api.http.access.cross_origin import CrossOriginProtection
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.dispatcher import Dispatcher
from broker_ctl.api.http.limits.concurrency import RequestClasses
from broker_ctl.api.http.limits.connections import BoundedServer, cap_to_descriptors
from broker_ctl.api.http.limits.failed_authentications import FailedAuthentications
from broker_ctl.api.http.limits.loop_lag import LoopLag
from broker_ctl.api.http.limits.overload import Overload
from broker_ctl.api.http.limits.rates import HttpRates
from broker_ctl.api.http.limits.turns import Turns
from broker_ctl.clock import Clock
from broker_ctl.errors import StartError
from broker_ctl.instruments.declared import ApiInstruments
from broker_ctl.security.audit.log import AuditLog
from broker_ctl.security.authorization.authorization import Authorization, GrantsOf, no_grants
from broker_ctl.security.client_limits.failure_delays import FailureDelays
from broker_ctl.security.client_limits.request_rates import RequestRates
from broker_ctl.tasks import TaskScope, wait_until

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
    """The same routes on one port in the clear, one over TLS, or both."""

    def __init__(
        self,
        routes: Iterable[web.AbstractRouteDef],
        request_classes: RequestClasses,
        rules: ApiRules,
        instruments: ApiInstruments,
        clock: Clock,
        *,
        audit: AuditLog,
        failures: FailureDelays,
        grants_of: GrantsOf = no_grants,
    ) -> None:
        self._lag = LoopLag(clock, instruments.loop_lag_s, rules.max_loop_lag_s)
        self._dispatcher = Dispatcher(
            routes,
            request_classes,
            Overload(Turns(clock), self._lag),
            CrossOriginProtection(rules.hosts, clock),
            Authorizer(
                rules.authenticator,
                Authorization(rules.policy, grants_of),
                rules.dataplane_secret,
                clock,
                rules.peers,
                brokers=rules.broker_certificates,
                authenticates_metrics=rules.authenticates_metrics,
            ),
            audit=AuditTrail(audit, clock),
            rates=HttpRates(
                RequestRates(rules.rates, "http", clock, instruments.rate_limited),
                is_signed=rules.peers is not None,
                brokers=rules.broker_certificates,
            ),
            failures=FailedAuthentications(failures),
            requests=instruments.requests,
            max_body_bytes=rules.max_body_bytes,
        )
        self._request_classes = request_classes
        self._rules = rules
        self._instruments = instruments
        self._tasks = TaskScope("HTTP server")
        self._runner: web.ServerRunner | None = None
        self._server: BoundedServer | None = None
        instruments.connections.bind(lambda: 0 if self._server is None else len(self._server))
        self._ports: dict[str, int] = {}

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: an address is in use, or not this machine's.
        """
        # No access log: a path may name a tenant's topic.
        rules = self._rules
        server = self._dispatcher.server(
            access_log=None,
            lingering_time=_LINGER_S,
            keepalive_timeout=rules.idle_timeout_s,
            max_connections=cap_to_descriptors(rules.max_connections),
            max_of_address=rules.max_connections_of_address,
            refused=self._instruments.refused_connections,
        )
        runner = web.ServerRunner(server, shutdown_timeout=_CANCEL_S)
        await runner.setup()
        try:
            await self._listen(runner, rules.port, "webServicePort")
            await self._listen(runner, rules.port_tls, "webServicePortTls", rules.tls)
        except StartError:
            await runner.cleanup()
            raise
        self._runner, self._server = runner, server
        self._tasks.keep(self._lag.measure(), "loop lag")
        for scheme, port in self._ports.items():
            log.info("serving %s on %s port %d", scheme, rules.address, port)

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
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._dispatcher.close()
        await self._tasks.close()

    @property
    def port(self) -> int:
        """The port in the clear."""
        return self._ports["HTTP"]

    @property
    def port_tls(self) -> int:
        """The port of TLS."""
        return self._ports["HTTPS"]

    async def _listen(
        self, runner: web.ServerRunner, port: int | None, key: str, tls: SSLContext | None = None
    ) -> None:
        if port is None:
            return
        address, index = self._rules.address, len(runner.addresses)
        try:
            site = web.TCPSite(runner, address, port, ssl_context=tls, backlog=_BACKLOG)
            await site.start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(
                f"cannot listen on {address} port {port}: {reason}; see bindAddress and {key}"
            ) from error
        # The runner lists addresses in the order of their start.
        self._ports["HTTP" if tls is None else "HTTPS"] = runner.addresses[index][1]
