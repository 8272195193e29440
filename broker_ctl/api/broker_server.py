"""The servers of a broker. They survive the end of a session, so that they can report it.

HTTP and the binary protocol each have a port in the clear, one over TLS, or both, with the same
content. The binary protocol serves lookups only, and shares their concurrency limit with HTTP.
"""

from importlib.metadata import version

from aiohttp import web

from broker_ctl.api.admin.brokers import BrokerRoutes
from broker_ctl.api.admin.bundles import BundleRoutes
from broker_ctl.api.admin.clusters import ClusterRoutes
from broker_ctl.api.admin.configuration import ConfigurationRoutes
from broker_ctl.api.admin.namespaces import AntiAffinityRoutes, NamespaceRoutes, ReplicationRoutes
from broker_ctl.api.admin.partitioned_topics import PartitionedTopicRoutes
from broker_ctl.api.admin.policies import PolicyRoutes
from broker_ctl.api.admin.quotas import QuotaRoutes
from broker_ctl.api.admin.tenants import TenantRoutes
from broker_ctl.api.admin.topics import TopicListRoutes, TopicNames, TopicRoutes
from broker_ctl.api.binary.dependencies import BinaryDependencies, BinaryListener, BinaryRules
from broker_ctl.api.binary.server import BinaryServer
from broker_ctl.api.control.balancing import BalancingRoutes
from broker_ctl.api.control.commands import (
    AuthorityRoutes,
    ControlRoutes,
    InstructionRoutes,
    StackRoutes,
)
from broker_ctl.api.control.leader import LeaderRoutes
from broker_ctl.api.control.partitions import PartitionRoutes
from broker_ctl.api.control.rollout import RolloutRoutes
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.api.http.http_server import HttpServer
from broker_ctl.api.http.limits.requests import ConcurrencyLimit, RequestClasses
from broker_ctl.api.http.routing import RoutedRequest
from broker_ctl.api.lookup.lookup import LookupRoutes
from broker_ctl.api.lookup.partition_leaders import PartitionLeaderRoutes
from broker_ctl.api.metrics.bindings import bind_instruments
from broker_ctl.api.metrics.exposition import MetricsRoutes
from broker_ctl.api.metrics.health import HealthRoutes
from broker_ctl.api.openapi.document import OpenApiRoutes
from broker_ctl.errors import StartError
from broker_ctl.products import Product, load
from broker_ctl.security.authorization import Authorization
from broker_ctl.security.client_limits import FailureDelays, RequestRates
from broker_ctl.settings.publishing import PortRole
from broker_ctl.settings.root import Settings


class ApiServer:
    """Serves lookup, admin, control, authority, health and metrics."""

    def __init__(self, dependencies: Dependencies, rules: ApiRules) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services
        self._rules = rules
        self._request_classes = RequestClasses(rules.max_requests)
        self._lookups = ConcurrencyLimit("lookups", rules.max_lookups)
        self._lookups.show(dependencies.instruments.bounds, "lookups")
        self._topic_names = TopicNames(dependencies)
        self._bundles = BundleRoutes(dependencies, rules.split_algorithm, rules.split_algorithms)
        self._failures = FailureDelays(
            rules.max_failure_delay_s,
            dependencies.clock,
            dependencies.instruments.security.authentication_failures,
        )
        grants = self._services.grants
        self._authorization = Authorization(
            rules.policy, grants.of, grants.recall, grants.are_current, grants.version
        )
        self._http = HttpServer(
            self.routes(),
            self._request_classes,
            rules,
            dependencies.instruments.api,
            dependencies.clock,
            bounds=dependencies.instruments.bounds,
            audit=dependencies.audit,
            tracer=dependencies.tracer,
            failures=self._failures,
            authorization=self._authorization,
        )
        self._binary = self._binary_server()

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: the address is in use, or not this machine's.
        """
        bind_instruments(self._dependencies, self._request_classes, self._lookups)
        self._services.configuration.listen(self._reconfigured)
        await self._http.start()
        try:
            await self._binary.start()
        except StartError:
            await self._http.stop(0.0)
            raise

    async def stop(self, deadline_s: float) -> None:
        """Refuse new requests, wait this long for those in progress, cancel the rest."""
        self._request_classes.close()
        await self._binary.stop(deadline_s)
        await self._topic_names.close()
        await self._http.stop(deadline_s)

    @property
    def port(self) -> int:
        """The port in the clear."""
        return self._http.port

    @property
    def port_tls(self) -> int:
        """The port of TLS."""
        return self._http.port_tls

    def port_of(self, role: PortRole) -> int:
        """The port in the clear of a role."""
        return self._http.port_of(role)

    @property
    def lookup_ports(self) -> tuple[int, ...]:
        """The ports of the binary protocol, the one in the clear first."""
        return self._binary.ports

    def limit_lookups(self, limit: int) -> None:
        """Change ``maxConcurrentLookupRequest``; it is dynamic."""
        self._lookups.limit = limit

    def _reconfigured(self, settings: Settings) -> None:
        self.limit_lookups(settings.api.max_concurrent_lookups)
        self._bundles.split_algorithm = settings.splitting.default_algorithm
        self._bundles.split_algorithms = settings.splitting.supported_algorithms

    def _binary_server(self) -> BinaryServer:
        dependencies, rules = self._dependencies, self._rules
        ports = (
            (rules.lookup_port, "lookupServicePort", None),
            (rules.lookup_port_tls, "lookupServicePortTls", rules.tls),
        )
        return BinaryServer(
            BinaryDependencies(
                lookup=dependencies.lookup,
                bound=self._lookups,
                lookup_urls_of=dependencies.cluster.lookup_urls_of,
                partitions_of=self._services.partitioned_topics.partitions_of,
                topics_of=self._topic_names.of_namespace,
                authorization=self._authorization,
                tracer=dependencies.tracer,
                instruments=dependencies.instruments.binary,
                bounds=dependencies.instruments.bounds,
                failures=self._failures,
                clock=dependencies.clock,
                rates=RequestRates(
                    rules.binary.rates,
                    "binary",
                    dependencies.clock,
                    dependencies.instruments.api.rate_limited,
                ),
            ),
            BinaryRules(
                version("broker-ctl"),
                rules.authenticator,
                rules.policy,
                audit=dependencies.audit,
                refresh_check_s=rules.refresh_check_s,
                wall_ms=dependencies.clock.wall_ms,
                max_connections=rules.binary.max_clients,
                max_connections_of_address=rules.binary.max_clients_of_address,
            ),
            [
                BinaryListener(rules.address, port, key, tls)
                for port, key, tls in ports
                if port is not None
            ],
        )

    async def _answer(self, request: RoutedRequest) -> web.StreamResponse:
        return await self._http.answer(request)

    def routes(self) -> list[web.RouteDef]:
        """All routes over HTTP."""
        dependencies, rules = self._dependencies, self._rules
        services = self._services
        subjects = (
            LookupRoutes(dependencies.lookup, self._lookups),
            TenantRoutes(services.policies.tenants),
            ClusterRoutes(services.policies.clusters, rules.cluster, services.ownership.urls),
            NamespaceRoutes(dependencies, rules.cluster),
            ReplicationRoutes(services.policies.namespaces),
            self._bundles,
            TopicRoutes(dependencies),
            TopicListRoutes(self._topic_names, services.namespaces),
            PartitionedTopicRoutes(services.partitioned_topics),
            PolicyRoutes(dependencies, rules.cluster),
            AntiAffinityRoutes(services.policies.groups, rules.cluster),
            QuotaRoutes(services.policies.quotas, services.namespaces),
            # Before the brokers of a cluster, which could be named configuration.
            ConfigurationRoutes(services.configuration),
            HealthRoutes(dependencies.readiness, rules.status_file),
            BrokerRoutes(dependencies, rules.cluster),
            BalancingRoutes(dependencies, rules.cluster),
            RolloutRoutes(dependencies),
            PartitionLeaderRoutes(dependencies, self._lookups),
            # Before the leader's commands, whose verb could be any word.
            PartitionRoutes(dependencies),
            InstructionRoutes(dependencies),
            LeaderRoutes(dependencies),
            StackRoutes(),
            ControlRoutes(dependencies, rules.cluster),
            AuthorityRoutes(dependencies.authority),
            MetricsRoutes(dependencies.instruments, rules.cluster, dependencies.clock),
        )
        served = [route for subject in subjects for route in subject.routes()]
        if self._rules.has_console:
            console = load(Product.CONSOLE)
            served += console.routes_of(self._dependencies, self._rules, self._answer)
        return [*served, *OpenApiRoutes(served, version("broker-ctl")).routes()]
