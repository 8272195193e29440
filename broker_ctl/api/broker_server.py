"""The servers of a broker, outside every session, so that they can always say why.

HTTP has one port, or two: in the clear and over TLS the same is served. So has the binary protocol,
which has what clients need before they connect to a broker, and shares the bound on lookups.
"""

from importlib.metadata import version

from aiohttp import web

from broker_ctl.api.admin.anti_affinity import AntiAffinityRoutes
from broker_ctl.api.admin.brokers import BrokerRoutes
from broker_ctl.api.admin.bundles import BundleRoutes
from broker_ctl.api.admin.clusters import ClusterRoutes
from broker_ctl.api.admin.configuration import ConfigurationRoutes
from broker_ctl.api.admin.namespaces import NamespaceRoutes
from broker_ctl.api.admin.partitioned_topics import PartitionedTopicRoutes
from broker_ctl.api.admin.policies import PolicyRoutes
from broker_ctl.api.admin.quotas import QuotaRoutes
from broker_ctl.api.admin.replication import ReplicationRoutes
from broker_ctl.api.admin.tenants import TenantRoutes
from broker_ctl.api.admin.topic_lists import TopicListRoutes
from broker_ctl.api.admin.topic_names import TopicNames
from broker_ctl.api.admin.topics import TopicRoutes
from broker_ctl.api.binary.parts import BinaryDependencies, BinaryRules, Listener
from broker_ctl.api.binary.server import BinaryServer
from broker_ctl.api.control.balancing import BalancingRoutes
from broker_ctl.api.control.commands import ControlRoutes
from broker_ctl.api.control.dataplane_authority import AuthorityRoutes
from broker_ctl.api.control.instructions import InstructionRoutes
from broker_ctl.api.control.leader import LeaderRoutes
from broker_ctl.api.control.partitions import PartitionRoutes
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.api.http.http_server import HttpServer
from broker_ctl.api.http.limits import ConcurrencyLimit, RequestClasses
from broker_ctl.api.lookup.lookup import LookupRoutes
from broker_ctl.api.lookup.partition_leaders import PartitionLeaderRoutes
from broker_ctl.api.metrics.bindings import follow
from broker_ctl.api.metrics.exposition import MetricsRoutes
from broker_ctl.api.metrics.health import HealthRoutes
from broker_ctl.errors import StartError
from broker_ctl.settings.root import Settings


class ApiServer:
    """Lookup, admin, control, authority, health and metrics."""

    def __init__(self, parts: Dependencies, rules: ApiRules) -> None:
        self._parts = parts
        self._rules = rules
        self._lanes = RequestClasses(rules.max_requests)
        self._lookups = ConcurrencyLimit("lookups", rules.max_lookups)
        self._topic_names = TopicNames(parts)
        self._bundles = BundleRoutes(parts, rules.split_algorithm, rules.split_algorithms)
        self._http = HttpServer(
            self.routes(), self._lanes, rules, parts.instruments.surface, parts.clock
        )
        self._binary = self._binary_server()

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: the address is taken, or not this machine's.
        """
        follow(self._parts, self._lanes, self._lookups)
        self._parts.configuration.listen(self._reconfigured)
        await self._http.start()
        try:
            await self._binary.start()
        except StartError:
            await self._http.stop(0.0)
            raise

    async def stop(self, deadline_s: float) -> None:
        """Refuse what comes, wait so long for what is in progress, cancel the rest."""
        self._lanes.close()
        await self._binary.stop(deadline_s)
        await self._topic_names.close()
        await self._http.stop(deadline_s)

    @property
    def port(self) -> int:
        """The port that is listened on in the clear."""
        return self._http.port

    @property
    def port_tls(self) -> int:
        """The port that is listened on for TLS."""
        return self._http.port_tls

    @property
    def lookup_ports(self) -> tuple[int, ...]:
        """The ports of the binary protocol, the one in the clear first."""
        return self._binary.ports

    def limit_lookups(self, limit: int) -> None:
        """Change ``maxConcurrentLookupRequest``; it is dynamic."""
        self._lookups.limit = limit

    def _reconfigured(self, settings: Settings) -> None:
        self.limit_lookups(settings.surface.max_concurrent_lookups)
        self._bundles.split_algorithm = settings.splitting.default_algorithm
        self._bundles.split_algorithms = settings.splitting.supported_algorithms

    def _binary_server(self) -> BinaryServer:
        parts, rules = self._parts, self._rules
        ports = (
            (rules.lookup_port, "lookupServicePort", None),
            (rules.lookup_port_tls, "lookupServicePortTls", rules.tls),
        )
        return BinaryServer(
            BinaryDependencies(
                lookup=parts.lookup,
                bound=self._lookups,
                lookup_urls_of=parts.cluster.lookup_urls_of,
                partitions_of=parts.partitioned_topics.partitions_of,
                topics_of=self._topic_names.of_namespace,
                instruments=parts.instruments.binary,
            ),
            BinaryRules(version("broker-ctl"), rules.credentials),
            [
                Listener(rules.address, port, key, tls)
                for port, key, tls in ports
                if port is not None
            ],
        )

    def routes(self) -> list[web.RouteDef]:
        """All that is served over HTTP."""
        parts, rules = self._parts, self._rules
        subjects = (
            LookupRoutes(parts.lookup, self._lookups),
            TenantRoutes(parts.policies.tenants),
            ClusterRoutes(parts.policies.clusters, rules.cluster, lambda: parts.ownership.urls),
            NamespaceRoutes(parts, rules.cluster),
            ReplicationRoutes(parts.policies.namespaces),
            self._bundles,
            TopicRoutes(parts),
            TopicListRoutes(self._topic_names, parts.namespaces),
            PartitionedTopicRoutes(parts.partitioned_topics),
            PolicyRoutes(parts, rules.cluster),
            AntiAffinityRoutes(parts.policies.groups, rules.cluster),
            QuotaRoutes(parts.policies.quotas, parts.namespaces),
            # Before the brokers of a cluster, which could be called configuration.
            ConfigurationRoutes(parts.configuration),
            HealthRoutes(parts.readiness, rules.status_file),
            BrokerRoutes(parts, rules.cluster),
            BalancingRoutes(parts, rules.cluster),
            PartitionLeaderRoutes(parts, self._lookups),
            # Before the leader's orders, whose verb could be any word.
            PartitionRoutes(parts),
            InstructionRoutes(parts),
            LeaderRoutes(parts),
            ControlRoutes(parts, rules.cluster),
            AuthorityRoutes(parts.authority),
            MetricsRoutes(parts.instruments, rules.cluster),
        )
        return [route for subject in subjects for route in subject.routes()]
