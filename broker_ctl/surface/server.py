"""The HTTP server of a broker: one port, outside every session, so that it can always say why."""

import logging
from typing import Final

from aiohttp import web

from broker_ctl.errors import StartError
from broker_ctl.settings.root import Settings
from broker_ctl.surface.access import access_middleware
from broker_ctl.surface.admin_anti_affinity import AntiAffinityRoutes
from broker_ctl.surface.admin_brokers import BrokerRoutes
from broker_ctl.surface.admin_bundles import BundleRoutes
from broker_ctl.surface.admin_configuration import ConfigurationRoutes
from broker_ctl.surface.admin_namespaces import NamespaceRoutes
from broker_ctl.surface.admin_policies import PolicyRoutes
from broker_ctl.surface.admin_quotas import QuotaRoutes
from broker_ctl.surface.admin_topics import TopicRoutes
from broker_ctl.surface.bounds import Bound, Lanes
from broker_ctl.surface.control import ControlRoutes
from broker_ctl.surface.dataplane_authority import AuthorityRoutes
from broker_ctl.surface.errors import error_middleware
from broker_ctl.surface.gauges import follow
from broker_ctl.surface.health import HealthRoutes
from broker_ctl.surface.lookup import LookupRoutes
from broker_ctl.surface.loop_lag import measure_lag
from broker_ctl.surface.metrics import MetricsRoutes
from broker_ctl.surface.parts import Parts, SurfaceRules
from broker_ctl.tasks import TaskScope, wait_until

log = logging.getLogger(__name__)

# How long what is left is given to end after it was cancelled.
_CANCEL_S: Final = 0.5
_POLL_S: Final = 0.02
# How long the rest of a refused body is read, so that the sender gets to read the refusal.
_LINGER_S: Final = 1.0


class Surface:
    """Lookup, admin, control, authority, health and metrics."""

    def __init__(self, parts: Parts, rules: SurfaceRules) -> None:
        self._parts = parts
        self._rules = rules
        self._lanes = Lanes(rules.max_requests)
        self._lookups = Bound("lookups", rules.max_lookups)
        self._bundles = BundleRoutes(parts, rules.split_algorithm, rules.split_algorithms)
        self._tasks = TaskScope("surface")
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: the address is taken, or not this machine's.
        """
        follow(self._parts, self._lanes, self._lookups)
        self._parts.configuration.listen(self._reconfigured)
        # Nothing of a request is logged: a path may name a tenant's topic.
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            shutdown_timeout=_CANCEL_S,
            lingering_time=_LINGER_S,
        )
        await runner.setup()
        rules = self._rules
        try:
            await web.TCPSite(runner, rules.address, rules.port, ssl_context=rules.tls).start()
        except OSError as error:
            await runner.cleanup()
            reason = error.strerror or str(error)
            raise StartError(
                f"cannot listen on {rules.address} port {rules.port}: {reason}; "
                "see bindAddress and webServicePort"
            ) from error
        self._runner = runner
        self._tasks.start(
            measure_lag(self._parts.clock, self._parts.instruments.surface.loop_lag_ms), "loop lag"
        )
        log.info("serving HTTP on %s port %d", rules.address, self.port)

    async def stop(self, deadline_s: float) -> None:
        """Refuse what comes, wait so long for what is in progress, cancel the rest."""
        self._lanes.close()

        async def is_idle() -> bool:
            return self._lanes.in_flight == 0

        if not await wait_until(is_idle, deadline_s, _POLL_S):
            log.warning("%d requests are cut off", self._lanes.in_flight)
        if self._runner is not None:
            await self._runner.cleanup()
        await self._tasks.close()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._runner is not None
        port: int = self._runner.addresses[0][1]
        return port

    def limit_lookups(self, limit: int) -> None:
        """Change ``maxConcurrentLookupRequest``; it is dynamic."""
        self._lookups.limit = limit

    def _reconfigured(self, settings: Settings) -> None:
        self.limit_lookups(settings.surface.max_concurrent_lookups)
        self._bundles.split_algorithm = settings.splitting.default_algorithm
        self._bundles.split_algorithms = settings.splitting.supported_algorithms

    def _application(self) -> web.Application:
        parts, rules = self._parts, self._rules
        app = web.Application(
            client_max_size=rules.max_body_bytes,
            middlewares=[
                error_middleware(parts.instruments.surface.requests),
                self._lanes.middleware(),
                access_middleware(rules.credentials, rules.dataplane_secret),
            ],
        )
        for subject in (
            LookupRoutes(parts.lookup, self._lookups),
            NamespaceRoutes(parts, rules.cluster),
            self._bundles,
            TopicRoutes(parts),
            PolicyRoutes(parts, rules.cluster),
            AntiAffinityRoutes(parts.policies.groups, rules.cluster),
            QuotaRoutes(parts.policies.quotas, parts.namespaces),
            # Before the brokers of a cluster, which could be called configuration.
            ConfigurationRoutes(parts.configuration),
            HealthRoutes(parts.readiness),
            BrokerRoutes(parts, rules.cluster),
            ControlRoutes(parts, rules.cluster),
            AuthorityRoutes(parts.authority),
            MetricsRoutes(parts.instruments, rules.cluster),
        ):
            app.add_routes(subject.routes())
        return app
