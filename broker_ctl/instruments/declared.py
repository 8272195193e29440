"""Every metric of a broker-ctl process, declared once, grouped by the part that feeds it.

Metrics of load and of the leader are in `balancing.py`, those of the binary protocol in
`binary.py`.

Each has its exposed name, help and labels; names end in the unit. Names with ``pulsar_`` or
``caffeine_`` have the same meaning as in Pulsar (docs: pulsar-store-metrics, pulsar-metrics), so
that its dashboards fit. All series also have the label ``cluster``.
"""

from collections.abc import Iterator
from typing import Final

from broker_ctl.instruments.balancing import (
    AdviceInstruments,
    AttachedInstruments,
    BundleInstruments,
    LeaderInstruments,
    LeaderTotals,
    LossInstruments,
    OwnershipInstruments,
    SimpleInstruments,
    TrafficInstruments,
)
from broker_ctl.instruments.clients import (
    AuditInstruments,
    BinaryInstruments,
    BoundInstruments,
    HistoryInstruments,
    SecretInstruments,
    SecurityInstruments,
)
from broker_ctl.instruments.kinds import (
    Counter,
    Gauge,
    Histogram,
    Instrument,
    Reported,
    Summary,
    Total,
)
from broker_ctl.instruments.partitions import ControllerInstruments, ReplicaInstruments

_STORE_MS: Final = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_ROUND_TRIP_S: Final = (0.001, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_BATCH: Final = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
_REVALIDATION_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LAG_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5)
_OPEN_NODES: Final = (
    "Nodes in ZooKeeper that are open to clients without an identity, counted at the start and "
    "every ten minutes by a daemon that has one."
)
_REQUEST_LABELS: Final = ("route", "method", "status")
_REQUESTS: Final = (
    "HTTP requests answered; route: refused for those that were refused before their handler was "
    "called, unknown where there is none."
)
_WITHOUT_QUORUM: Final = (
    "ZooKeeper servers that run but have no quorum, probed while this process cannot "
    "get a session; 0 while it has one."
)


class StoreInstruments:
    """Metadata store; ``name`` distinguishes the stores of one process."""

    def __init__(self) -> None:
        self.latency_ms = Histogram(
            "pulsar_metadata_store_ops_latency_ms",
            "Latency of a metadata store operation including queue wait, ms.",
            ("name", "type", "status"),
            bounds=_STORE_MS,
        )
        self.put_bytes = Counter(
            "pulsar_metadata_store_put_bytes_total", "Bytes of node values written.", ("name",)
        )
        self.queue_wait_ms = self._of_batches(
            "pulsar_batch_metadata_store_queue_wait_time_ms",
            "Time from the creation of an operation until its batch is sent, ms.",
        )
        self.execute_ms = self._of_batches(
            "pulsar_batch_metadata_store_batch_execute_time_ms",
            "Time to pass a batch to the connection, without its reply, ms.",
        )
        self.batch_size = self._of_batches(
            "pulsar_batch_metadata_store_batch_size", "Number of operations in a batch."
        )
        self.in_flight = Gauge(
            "broker_ctl_store_requests_in_flight",
            "Requests in flight, by lane; a batch counts as one.",
            ("name", "lane"),
        )
        self.multi_rollbacks = Counter(
            "broker_ctl_multi_rollbacks_total",
            "Batches of writes rejected because of one of their writes.",
            ("name",),
        )
        self.round_trip_s = Histogram(
            "broker_ctl_store_round_trip_seconds",
            "Time from sending a request until its reply is read.",
            ("name", "request"),
            bounds=_ROUND_TRIP_S,
        )
        self.without_quorum = Reported(
            "broker_ctl_zookeeper_servers_without_quorum", _WITHOUT_QUORUM, ("name",)
        )
        self.open_nodes = Reported("broker_ctl_open_znodes", _OPEN_NODES, ("name",))
        self.ambiguous_results = Counter(
            "broker_ctl_ambiguous_results_total",
            "Writes with a lost reply, by the outcome that reading the nodes showed.",
            ("op", "resolution"),
        )
        self.corrupt_nodes = Total(
            "broker_ctl_corrupt_nodes_total", "Nodes skipped because they do not decode.", ("kind",)
        )
        self.signature_failures = self._of_signatures()

    @staticmethod
    def _of_signatures() -> Counter:
        return Counter(
            "broker_ctl_znode_signature_failures_total",
            "Reads of nodes without a valid signature under the cluster's key, by family of nodes; "
            "reason: unsigned, wrong or replayed (signed at another time than that of the node). "
            "With znodeSignatures=require they were refused.",
            ("family", "reason"),
        )

    @staticmethod
    def _of_batches(name: str, says: str) -> Histogram:
        return Histogram(name, says, ("name",), bounds=_BATCH)


class CacheInstruments:
    """Caches of the metadata store; names are those of the library that Pulsar uses."""

    def __init__(self) -> None:
        self.hits = self._total("hit", "Reads answered from the cache.")
        self.misses = self._total("miss", "Reads that waited for the metadata store.")
        self.requests = self._total("requests", "Reads: hits plus misses.")
        self.loads = self._total("loads", "Reads of the metadata store, including failed ones.")
        self.load_failures = self._total("load_failure", "Failed reads of the metadata store.")
        self.refreshes = Total(
            "broker_ctl_cache_refreshes_total",
            "Background reads of the metadata store that refresh an old cache entry.",
            ("cache",),
        )
        self.evictions = self._total("eviction", "Entries evicted because of a size or age limit.")
        self.size = Gauge("caffeine_cache_estimated_size", "Entries in the cache.", ("cache",))
        self.invalidations = Total(
            "broker_ctl_cache_invalidate_all_total",
            "Number of times that a session event cleared the whole cache.",
            ("cache",),
        )

    @staticmethod
    def _total(counted: str, says: str) -> Total:
        return Total(f"caffeine_cache_{counted}_total", says, ("cache",))


class SessionInstruments:
    """Session, locks and elections."""

    def __init__(self) -> None:
        self.state = Gauge(
            "broker_ctl_session_state",
            "State of the ZooKeeper session: 1 for the current state, 0 for the others.",
            ("state",),
        )
        self.epoch = Gauge(
            "broker_ctl_session_epoch", "Number of ZooKeeper sessions of this process so far."
        )
        self.events = Counter(
            "broker_ctl_session_events_total", "Events of the ZooKeeper session.", ("event",)
        )
        self.lease_remaining_s = Gauge(
            "broker_ctl_lease_remaining_seconds",
            "Remaining lease: time for which this broker may serve without another heartbeat.",
        )
        self.settings_differ = Gauge(
            "broker_ctl_settings_that_differ",
            "Settings of which another live broker has another value, among those that all brokers "
            "should have in common.",
        )
        self.timeout_s = Gauge(
            "broker_ctl_session_timeout_seconds", "Session timeout granted by the servers."
        )
        self.deletions_queued = Gauge(
            "broker_ctl_deletions_queued",
            "Nodes of this broker whose deletion failed and is being retried.",
        )
        self.deletions_age_s = Gauge(
            "broker_ctl_deletions_age_seconds", "Age of the oldest deletion being retried, seconds."
        )
        self.deletions_given_up = Total(
            "broker_ctl_deletions_given_up_total",
            "Nodes of this broker that remain because the queue of deletions was full.",
        )
        self.lock_lost = Total(
            "broker_ctl_lock_lost_total",
            "Locks lost without a release: with the session, or detected by a read.",
            ("reason",),
        )
        self.revalidation_s = Histogram(
            "broker_ctl_revalidation_seconds",
            "Time from the start of a revalidation of this broker's nodes until they are "
            "read, per batch.",
            bounds=_REVALIDATION_S,
        )
        self.is_leader = Gauge(
            "broker_ctl_is_leader", "1 while this broker is the leader, by election.", ("seat",)
        )
        self.lead_epoch = Gauge(
            "broker_ctl_lead_epoch",
            "Epoch of this broker's leadership term; 0 while it does not lead.",
            ("seat",),
        )
        self.brokers = Gauge("broker_ctl_brokers", "Live brokers known to this broker.")


class ApiInstruments:
    """Lookups, HTTP, and the process."""

    def __init__(self) -> None:
        self.lookup_ms = Summary("pulsar_broker_lookup", "Latency of a lookup, ms.")
        self.lookup_answers = Total(
            "pulsar_broker_lookup_answers_total", "Lookups answered with the owner."
        )
        self.lookup_redirects = Total(
            "pulsar_broker_lookup_redirects_total", "Lookups redirected to another broker."
        )
        self.lookup_failures = Total("pulsar_broker_lookup_failures_total", "Failed lookups.")
        self.lookups_pending = Gauge(
            "pulsar_broker_lookup_pending_requests", "Lookups in progress."
        )
        self.orders = Counter(
            "broker_ctl_commands_total",
            "Commands of the leader received by this broker; result: done, or the name of an "
            "error.",
            ("verb", "result"),
        )
        self.requests = Counter("broker_ctl_http_requests_total", _REQUESTS, _REQUEST_LABELS)
        self.in_flight = Gauge(
            "broker_ctl_http_requests_in_flight", "HTTP requests in progress.", ("lane",)
        )
        self.connections = Gauge("broker_ctl_http_connections", "Open HTTP connections.")
        self.refused_connections = Counter(
            "broker_ctl_http_connections_refused_total",
            "HTTP connections refused or closed because of a limit of connections.",
        )
        self.unread_connections = self._of_unread()
        self.rate_limited = self._of_rates()
        self.refused_addresses = Total(
            "broker_ctl_peer_addresses_refused_total",
            "Web addresses in ZooKeeper that this process refused, by the node that names them: "
            "they are not at the host of the broker id, or in the clear, or the certificate there "
            "does not prove the id.",
            ("source",),
        )
        self.is_ready = Gauge("broker_ctl_ready", "1 while /readyz answers 200.")
        self.task_failures = Total(
            "broker_ctl_task_failures_total",
            "Background tasks that failed with an unexpected error.",
        )
        self.dead_tasks = Gauge(
            "broker_ctl_dead_tasks",
            "Failed background tasks that the daemon needs; /readyz names the first.",
        )
        self.loop_lag_s = Histogram(
            "broker_ctl_loop_lag_seconds", "Delay of a timer in the event loop.", bounds=_LAG_S
        )

    @staticmethod
    def _of_unread() -> Counter:
        return Counter(
            "broker_ctl_http_connections_unread_total",
            "HTTP connections closed because their client did not read its answers.",
        )

    @staticmethod
    def _of_rates() -> Counter:
        return Counter(
            "broker_ctl_rate_limited_requests_total",
            "Requests rejected because of a rate limit, by protocol (http or binary) and limit: "
            "of all clients (total), of one address, or of one role.",
            ("protocol", "limit"),
        )


class Instruments:
    """All instruments; each part gets its own group."""

    def __init__(self) -> None:
        self.store = StoreInstruments()
        self.caches = CacheInstruments()
        self.session = SessionInstruments()
        self.bundles = BundleInstruments()
        self.ownership = OwnershipInstruments()
        self.traffic = TrafficInstruments()
        self.leader = LeaderInstruments()
        self.losses = LossInstruments()
        self.advice = AdviceInstruments()
        self.attached = AttachedInstruments()
        self.totals = LeaderTotals()
        self.simple = SimpleInstruments()
        self.api = ApiInstruments()
        self.bounds = BoundInstruments()
        self.binary = BinaryInstruments()
        self.controller = ControllerInstruments()
        self.replicas = ReplicaInstruments()
        self.history = HistoryInstruments()
        self.audit = AuditInstruments()
        self.security = SecurityInstruments()
        self.secrets = SecretInstruments()

    def __iter__(self) -> Iterator[Instrument]:
        groups = vars(self).values()
        return (instrument for group in groups for instrument in vars(group).values())


def exposed_names() -> frozenset[str]:
    """Names of all series that can be scraped, for checks of dashboards and alerts."""
    return frozenset(
        instrument.name + suffix for instrument in Instruments() for suffix in instrument.suffixes
    )
