"""What the surface is built from, and no more of each part than it asks of it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Protocol

from broker_ctl.api.http.credentials import Credentials
from broker_ctl.broker.lookup.lookup import Answer, LookupStatistics
from broker_ctl.broker.namespaces.partitioned_topics import PartitionedTopics
from broker_ctl.broker.ownership.split_boundaries import Boundaries
from broker_ctl.broker.ownership.topics import OwnTopics
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.broker.policies.policies import Policies
from broker_ctl.broker.replicas.instructions import Handled
from broker_ctl.broker.replicas.partition_leaders import LedPartition
from broker_ctl.clock import Clock
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.core.machines.session import State as SessionState
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BrokerLoad
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.core.model.namespace import Ring
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.core.strategies.splitting.catalog import SPLITTING
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import Instruments
from broker_ctl.ports import BalancerAdmin, Cluster, CommandHandler, ControllerAdmin, JournalEntry


class Lookup(Protocol):
    """Where clients go; see `managers.lookup.Lookup`."""

    async def find(
        self, topic: Topic, *, authoritative: bool = False, is_preloading: bool = False
    ) -> Answer:
        """For a topic."""
        ...

    async def find_bundle(self, bundle: Bundle, *, authoritative: bool = False) -> Answer:
        """For a bundle, which is assigned if nobody owns it."""
        ...

    async def elsewhere(self, namespace: Namespace) -> BrokerUrls | None:
        """The peer cluster that serves a namespace; None: this one does."""
        ...

    async def bundle_of(self, topic: Topic) -> Bundle:
        """The bundle that holds a topic."""
        ...

    def statistics(self) -> LookupStatistics:
        """Counts since start."""
        ...


class Owner(Protocol):
    """Who may serve a bundle."""

    @property
    def urls(self) -> BrokerUrls:
        """Where it is."""
        ...

    @property
    def token(self) -> int:
        """Its fencing token."""
        ...

    @property
    def is_self(self) -> bool:
        """Whether it is this broker."""
        ...


class Held(Protocol):
    """A bundle on this broker."""

    @property
    def state(self) -> str:
        """A `core.ownership.BundleState`."""
        ...

    @property
    def token(self) -> int:
        """Its fencing token, 0 without a right."""
        ...


class Authorised(Protocol):
    """What is answered only while this broker may act; see `managers.authorised.Authorised`."""

    def held(self) -> AbstractContextManager[object]:
        """For the length of the block."""
        ...


class Ownership(Protocol):
    """The bundles of this broker; see `managers.ownership.Ownership`."""

    @property
    def urls(self) -> BrokerUrls:
        """This broker."""
        ...

    @property
    def is_draining(self) -> bool:
        """Whether it gives everything up."""
        ...

    def owned(self) -> Mapping[Bundle, Held]:
        """All that is held; changes under whoever awaits."""
        ...

    async def owner_of(self, bundle: Bundle) -> Owner | None:
        """Who may serve a bundle."""
        ...

    async def unload(self, bundle: Bundle) -> object:
        """Give a bundle up by order of an operator."""
        ...

    async def split(
        self, bundle: Bundle, algorithm: str, boundaries: tuple[int, ...] = ()
    ) -> tuple[Bundle, ...]:
        """Replace a bundle by its children."""
        ...


class Namespaces(Protocol):
    """Namespaces and their rings; see `managers.namespaces.Namespaces`."""

    async def ring(self, namespace: Namespace) -> Ring:
        """The bundles of a namespace."""
        ...

    async def create(
        self,
        namespace: Namespace,
        *,
        bundles: int | None = None,
        boundaries: Sequence[int] = (),
        policies: Mapping[str, Any] | None = None,
        is_dry_run: bool = False,
    ) -> Ring:
        """A new namespace."""
        ...

    async def delete(self, namespace: Namespace, *, is_dry_run: bool = False) -> None:
        """Delete a namespace of which nobody owns a bundle."""
        ...

    async def of_tenant(self, tenant: str) -> list[Namespace]:
        """Namespaces of one tenant."""
        ...


class LoadReport(Protocol):
    """A broker's load report, in Pulsar's form."""

    @property
    def load(self) -> BrokerLoad:
        """What it says."""
        ...

    def encode(self) -> bytes:
        """As JSON."""
        ...


class LoadReporter(Protocol):
    """What this broker says of itself; see `managers.load_report.LoadReporter`."""

    def current(self) -> LoadReport:
        """The newest report."""
        ...


class Directives(Protocol):
    """The pause, which any broker can write, and the drains; see `coordination.directives`."""

    @property
    def drains(self) -> Mapping[str, Drain]:
        """By broker, those that stand."""
        ...

    @property
    def pause(self) -> Pause | None:
        """The one that stands."""
        ...

    async def begin_pause(self, order: AuditInfo) -> Pause:
        """Pause, unless there is a pause already."""
        ...

    async def end_pause(self) -> Pause | None:
        """Take it back; answers with the one that there was."""
        ...


class DecisionLog(Protocol):
    """What was decided; see `managers.journal.DecisionJournal`."""

    def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""
        ...

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Decisions by kind, reason and result."""
        ...


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether clients should come here, and why not."""

    is_ready: bool
    reason: str = ""


class PartitionLeaders(Protocol):
    """Where partitions are led; see `managers.partition_leaders.PartitionLeaders`."""

    async def find(self, topic: str, partition: int) -> LedPartition:
        """Of one partition."""
        ...

    async def of_topic(self, topic: str) -> list[LedPartition]:
        """Of all partitions of a topic."""
        ...


class InstructedReplicas(Protocol):
    """The replicas of this broker; see `managers.replicas.Replicas`."""

    @property
    def newest_controller_epoch(self) -> int:
        """Of all controllers that were heard."""
        ...

    async def obey(self, instruction: Instruction) -> Handled:
        """Carry an instruction out."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionDependencies:
    """What is shown and steered of replicated partitions.

    Attributes:
        desk: what only the controller has; None while this broker does not control.
        controller: name and web address of the daemon that controls; None while nobody is known.
    """

    desk: Callable[[], ControllerAdmin | None]
    controller: Callable[[], tuple[str, str] | None]


class ControlDependencies(Protocol):
    """What it takes to steer the balancing: of a broker, or of whoever balances from outside."""

    @property
    def own_id(self) -> str:
        """This process, as its seat names it."""
        ...

    @property
    def cluster(self) -> Cluster:
        """Who is there, and who leads."""
        ...

    @property
    def desk(self) -> Callable[[], BalancerAdmin | None]:
        """What only the leader has; None while this process does not lead."""
        ...

    @property
    def directives(self) -> Directives:
        """The pause."""
        ...

    @property
    def clock(self) -> Clock:
        """Dates orders."""
        ...


class ViewDependencies(ControlDependencies, Protocol):
    """What every process that may lead shows of itself."""

    @property
    def journal(self) -> DecisionLog:
        """What was decided."""
        ...

    @property
    def readiness(self) -> Callable[[], Readiness]:
        """Whether it is at work."""
        ...

    @property
    def authority(self) -> Callable[[], tuple[int, int]]:
        """Session epoch, and for how many ms acts may be started."""
        ...

    @property
    def session_state(self) -> Callable[[], SessionState]:
        """Where its session stands."""
        ...

    @property
    def instruments(self) -> Instruments:
        """All that is measured."""
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Everything that is shown or steered.

    Attributes:
        boundaries: where a bundle of this broker would be cut.
        desk: what only the leader has; None while this broker does not lead.
        authority: session epoch, and for how many ms acts may be started.
        authorised: what is answered only while this broker may act.
        peers: calls other brokers with the token that this broker has itself.
        partition_leaders: what clients of partitions ask for, of any broker.
        partitions, replicas: None where this broker takes no part in replication.
    """

    lookup: Lookup
    ownership: Ownership
    boundaries: Boundaries
    topics: OwnTopics
    namespaces: Namespaces
    partitioned_topics: PartitionedTopics
    policies: Policies
    configuration: DynamicConfiguration
    reporter: LoadReporter
    orders: CommandHandler
    cluster: Cluster
    desk: Callable[[], BalancerAdmin | None]
    journal: DecisionLog
    directives: Directives
    readiness: Callable[[], Readiness]
    authority: Callable[[], tuple[int, int]]
    session_state: Callable[[], SessionState]
    peers: HttpClient
    instruments: Instruments
    clock: Clock
    authorised: Authorised
    partition_leaders: PartitionLeaders
    partitions: PartitionDependencies | None = None
    replicas: InstructedReplicas | None = None

    @property
    def own_id(self) -> str:
        """This broker."""
        return self.ownership.urls.broker_id


@dataclass(frozen=True, slots=True)
class ApiRules:
    """Where the server listens, whom it lets in, and its bounds.

    Attributes:
        port: 0: any free one; None: nothing is served in the clear.
        port_tls: the same for what is served over TLS, by ``tls``.
        lookup_port, lookup_port_tls: the same for Pulsar's binary protocol.
        max_requests: in progress at a time, of clients, and as many again of brokers.
        max_lookups: in progress at a time, within ``max_requests``.
        max_connections: over HTTP, on all its ports together.
        idle_timeout_s: how long such a connection may send no whole head of a request.
        split_algorithm: where a request names none.
        split_algorithms: which a request may name.
        credentials: who may change things; None: everybody may.
        status_file: see `health.HealthRoutes`.
        dataplane_secret: what the broker process shows for its authority; None: nothing.
    """

    cluster: str
    address: str = "127.0.0.1"
    port: int | None = 8080
    port_tls: int | None = None
    lookup_port: int | None = None
    lookup_port_tls: int | None = None
    tls: SSLContext | None = field(default=None, repr=False)
    max_body_bytes: int = 1024 * 1024
    max_requests: int = 1024
    max_lookups: int = 50_000
    max_connections: int = 2048
    idle_timeout_s: float = 30.0
    split_algorithm: str = "range_equally_divide"
    split_algorithms: tuple[str, ...] = tuple(SPLITTING.entries)
    credentials: Credentials | None = field(default=None, repr=False)
    status_file: str = ""
    dataplane_secret: str | None = field(default=None, repr=False)
