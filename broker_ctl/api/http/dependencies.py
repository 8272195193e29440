"""What the API's servers are built from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Protocol

from broker_ctl.api.http.access.peer_requests import BrokerCertificates, PeerRequests
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.broker.lookup.lookup import LeaseGuard, Lookup
from broker_ctl.broker.ownership.command_handler import OwnTopics
from broker_ctl.broker.ownership.ring_change import Boundaries
from broker_ctl.broker.replicas.lifecycle import Replicas
from broker_ctl.broker.services import BrokerServices
from broker_ctl.clock import Clock
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.broker import BrokerUrls, LookupUrls
from broker_ctl.core.strategies.splitting.algorithms import SPLITTING
from broker_ctl.http_client import Sign
from broker_ctl.instruments.declared import Instruments
from broker_ctl.peer_http import PeerHttp
from broker_ctl.security.audit.log import AuditLog
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.client_limits import RateLimits
from broker_ctl.settings.publishing import HttpPort, PortRole
from broker_ctl.tracing.spans import Tracer


class Cluster(Protocol):
    """Live brokers and the leader; see `LiveCluster`, as coordination is not imported here."""

    def broker_ids(self) -> list[str]:
        """Live brokers, sorted."""

    def urls_of(self, broker_id: str) -> BrokerUrls | None:
        """Where a live broker is reached."""

    def lookup_urls_of(self, broker_id: str) -> LookupUrls | None:
        """Where a live broker answers binary lookups."""

    def leader(self) -> tuple[str, str] | None:
        """Broker id and web address of the leader; None: unknown."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether clients should come here; why not, or what else they should know."""

    is_ready: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PartitionDependencies:
    """Replicated partitions, where this broker takes part in them.

    Attributes:
        admin: of the controller; None while this broker is not the controller.
        controller: name and web address of the daemon that is the controller; None: unknown.
    """

    admin: Callable[[], ControllerOperations | None]
    controller: Callable[[], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class ClientForwarding:
    """Calls of other brokers for clients of this process.

    Attributes:
        peers_with: calls brokers with the headers of a client's request.
        is_proven: whether nobody but this live broker can answer, also where others write to
            ZooKeeper; no other gets the token of a client.
    """

    peers_with: Callable[[Sign], PeerHttp]
    is_proven: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlDependencies:
    """What every process has that may lead: one of the brokers, or one that balances from outside.

    Attributes:
        own_id: this process, as it stands for election.
        balancer: with the pause, the drains and the journal of this process, leading or not.
        admin: the same; None while this process does not lead.
        clock: dates directives.
        forwarding: for the console; None: other brokers are not called for clients.
        audit: the audit log.
        authority: session epoch, and the milliseconds in which acts may be started.
        tracer: None: nothing is traced.
    """

    own_id: str
    cluster: Cluster
    balancer: LoadBalancer
    admin: Callable[[], LoadBalancer | None]
    clock: Clock
    audit: AuditLog
    readiness: Callable[[], Readiness]
    authority: Callable[[], tuple[int, int]]
    session_state: Callable[[], SessionState]
    instruments: Instruments
    forwarding: ClientForwarding | None = None
    tracer: Tracer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies(ControlDependencies):
    """Further dependencies of a broker.

    Attributes:
        boundaries: where a bundle of this broker would be split.
        authorised: requests that are answered only while this broker may act.
        peers: calls other brokers with the token that this broker has itself.
        partitions, replicas: None where this broker takes no part in replication.
    """

    services: BrokerServices
    lookup: Lookup
    boundaries: Boundaries
    topics: OwnTopics
    peers: PeerHttp
    authorised: LeaseGuard
    partitions: PartitionDependencies | None = None
    replicas: Replicas | None = None


@dataclass(frozen=True, slots=True)
class BinaryLimits:
    """Limits of clients of the binary protocol.

    Attributes:
        max_clients: on all ports together; 0: no limit.
        max_clients_of_address: of them, of one address; 0: all.
        rates: requests per second.
    """

    max_clients: int = 10_000
    max_clients_of_address: int = 0
    rates: RateLimits = field(default_factory=RateLimits)


@dataclass(frozen=True, slots=True)
class ApiRules:
    """Where the server listens, whom it lets in, and its bounds.

    Attributes:
        port: 0: any free port; None: no plaintext port.
        port_tls: the same for what is served over TLS, by ``tls``.
        lookup_port, lookup_port_tls: the same for Pulsar's binary protocol.
        further_ports: for administration and for metrics, where these have ports of their own.
        zookeeper: ``host:port,...`` of the servers of this process; empty: it has none.
        hosts: names under which clients may reach the server, besides localhost and IP addresses.
        max_requests: in progress at a time, of clients, and as many again of brokers.
        max_lookups: in progress at a time, within ``max_requests``.
        max_connections: over HTTP, on each pair of its ports.
        max_connections_of_address: of them, of one address; 0: all.
        rates: requests per second.
        max_failure_delay_s: longest delay of the answer to a failed authentication.
        binary: limits of the binary protocol.
        idle_timeout_s: how long such a connection may send no whole head of a request.
        max_loop_lag_s: a lag of the event loop above which requests are rejected.
        split_algorithm: where a request names none.
        split_algorithms: which a request may name.
        authenticator: of clients; None: every client may change things.
        policy: what roles may do.
        authenticates_metrics: whether metrics need a role.
        refresh_check_s: see `BinaryRules`.
        status_file: see `health.HealthRoutes`.
        dataplane_secret: newest token of the broker process for its authority; None: it needs none.
        peers: judges the signed requests of other brokers; None: the cluster has no keys.
        has_console: whether the console is served.
        is_console_read_only: whether it offers nothing that changes something.
        broker_certificates: judges those of other brokers; None: they prove nothing.
    """

    cluster: str
    address: str = "127.0.0.1"
    port: int | None = 8080
    port_tls: int | None = None
    lookup_port: int | None = None
    lookup_port_tls: int | None = None
    tls: SSLContext | None = field(default=None, repr=False)
    further_ports: tuple[HttpPort, ...] = ()
    hosts: tuple[str, ...] = ()
    zookeeper: str = ""
    max_body_bytes: int = 1024 * 1024
    max_requests: int = 1024
    max_lookups: int = 50_000
    max_connections: int = 2048
    max_connections_of_address: int = 0
    rates: RateLimits = field(default_factory=RateLimits)
    max_failure_delay_s: float = 0.0
    binary: BinaryLimits = field(default_factory=BinaryLimits)
    idle_timeout_s: float = 30.0
    max_loop_lag_s: float = 0.3
    split_algorithm: str = "range_equally_divide"
    split_algorithms: tuple[str, ...] = tuple(SPLITTING.entries)
    authenticator: Authenticator | None = None
    policy: AuthorizationPolicy = field(default_factory=lambda: AuthorizationPolicy(ClusterRoles()))
    authenticates_metrics: bool = False
    refresh_check_s: float = 60.0
    status_file: str = ""
    dataplane_secret: Callable[[], bytes] | None = field(default=None, repr=False)
    peers: PeerRequests | None = None
    broker_certificates: BrokerCertificates | None = None
    has_console: bool = True
    is_console_read_only: bool = False

    @property
    def ports(self) -> tuple[HttpPort, ...]:
        """All HTTP ports, those for clients first."""
        public = HttpPort(PortRole.PUBLIC, self.address, self.port, self.port_tls)
        return public, *self.further_ports
