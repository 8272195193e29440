"""Every metric of a broker-ctl process, declared once, and grouped by the floor that feeds it.

Those of the load and of the leader stand in `balancing.py`, those of the binary protocol in
`binary.py`.

Each has its exposed name, what it says, and its labels; names end in the unit. What is called
``pulsar_`` or ``caffeine_`` means what it means in Pulsar (docs: pulsar-store-metrics,
pulsar-metrics), so that its dashboards fit. All series also carry ``cluster``.
"""

from collections.abc import Iterator
from typing import Final

from broker_ctl.instruments.balancing import (
    BundleInstruments,
    LeaderInstruments,
    LeaderTotals,
    OwnershipInstruments,
    SimpleInstruments,
    TrafficInstruments,
)
from broker_ctl.instruments.binary import BinaryInstruments
from broker_ctl.instruments.history import HistoryInstruments
from broker_ctl.instruments.kinds import (
    Counter,
    Gauge,
    Histogram,
    Instrument,
    Reported,
    Summary,
    Total,
)
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.instruments.replicas import ReplicaInstruments

_STORE_MS: Final = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_BATCH: Final = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
_REVALIDATION_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LAG_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
_WITHOUT_QUORUM: Final = (
    "ZooKeeper servers that were up and had no quorum when this process got no session and asked"
    " them; 0 while it has one."
)


class StoreInstruments:
    """Metadata store; ``name`` distinguishes the stores of one process."""

    def __init__(self) -> None:
        self.latency_ms = Histogram(
            "pulsar_metadata_store_ops_latency_ms",
            "Time of an operation of the metadata store, queue wait included.",
            ("name", "type", "status"),
            bounds=_STORE_MS,
        )
        self.put_bytes = Counter(
            "pulsar_metadata_store_put_bytes_total", "Bytes of values that were written.", ("name",)
        )
        self.queue_wait_ms = self._of_batches(
            "pulsar_batch_metadata_store_queue_wait_time_ms",
            "Time from the creation of an operation until its batch is sent.",
        )
        self.execute_ms = self._of_batches(
            "pulsar_batch_metadata_store_batch_execute_time_ms",
            "Time that handing a batch to the connection takes, its reply not included.",
        )
        self.batch_size = self._of_batches(
            "pulsar_batch_metadata_store_batch_size", "Operations in a batch."
        )
        self.in_flight = Gauge(
            "broker_ctl_store_requests_in_flight",
            "Requests on their way, by lane; a batch is one.",
            ("name", "lane"),
        )
        self.multi_rollbacks = Counter(
            "broker_ctl_multi_rollbacks_total",
            "Batches of writes that were refused because of one of them.",
            ("name",),
        )
        self.round_trip_ms = Histogram(
            "broker_ctl_store_round_trip_ms",
            "Time from the sending of a request until its reply is read.",
            ("name", "request"),
            bounds=_STORE_MS,
        )
        self.without_quorum = Reported(
            "broker_ctl_zookeeper_servers_without_quorum", _WITHOUT_QUORUM, ("name",)
        )
        self.ambiguous_results = Counter(
            "broker_ctl_ambiguous_results_total",
            "Writes whose reply was lost, and what reading the nodes told of them.",
            ("op", "resolution"),
        )
        self.corrupt_nodes = Total(
            "broker_ctl_corrupt_nodes_total",
            "Nodes that were skipped because their payload does not decode.",
            ("kind",),
        )

    @staticmethod
    def _of_batches(name: str, says: str) -> Histogram:
        return Histogram(name, says, ("name",), bounds=_BATCH)


class CacheInstruments:
    """Caches of the metadata store; the names are those of the library that Pulsar uses."""

    def __init__(self) -> None:
        self.hits = self._total("hit", "Reads that were answered from memory.")
        self.misses = self._total("miss", "Reads that had to wait for the store.")
        self.requests = self._total("requests", "Reads, hits and misses.")
        self.loads = self._total("loads", "Reads of the store, failed ones included.")
        self.load_failures = self._total("load_failure", "Reads of the store that failed.")
        self.refreshes = Total(
            "broker_ctl_cache_refreshes_total",
            "Reads of the store for an entry that was answered from memory, being old.",
            ("cache",),
        )
        self.evictions = self._total("eviction", "Entries that left because of a bound.")
        self.size = Gauge("caffeine_cache_estimated_size", "Entries of a cache.", ("cache",))
        self.invalidations = Total(
            "broker_ctl_cache_invalidate_all_total",
            "How often the session made a cache forget everything.",
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
            "1 for the state that the ZooKeeper session is in, 0 for the others.",
            ("state",),
        )
        self.epoch = Gauge("broker_ctl_session_epoch", "How many sessions this process has had.")
        self.events = Counter(
            "broker_ctl_session_events_total", "Events of the session.", ("event",)
        )
        self.lease_remaining_ms = Gauge(
            "broker_ctl_lease_remaining_ms",
            "How long this broker may still start acts without another heartbeat.",
        )
        self.timeout_ms = Gauge(
            "broker_ctl_session_timeout_ms", "Timeout that the servers granted the session."
        )
        self.deletions_queued = Gauge(
            "broker_ctl_deletions_queued", "Own nodes whose deletion failed and is tried again."
        )
        self.deletions_age_s = Gauge(
            "broker_ctl_deletions_age_seconds", "How long the oldest of them has waited."
        )
        self.deletions_given_up = Total(
            "broker_ctl_deletions_given_up_total",
            "Own nodes that were left standing because too many deletions waited.",
        )
        self.lock_lost = Total(
            "broker_ctl_lock_lost_total",
            "Locks that ended without being released: with the session, or as a read found.",
            ("reason",),
        )
        self.revalidation_s = Histogram(
            "broker_ctl_revalidation_seconds",
            "Time from a doubt about own nodes until they were read again, by batch.",
            bounds=_REVALIDATION_S,
        )
        self.is_leader = Gauge(
            "broker_ctl_is_leader", "1 while this broker leads, by seat.", ("seat",)
        )
        self.lead_epoch = Gauge(
            "broker_ctl_lead_epoch", "Epoch of the leading here; 0 without one.", ("seat",)
        )
        self.brokers = Gauge("broker_ctl_brokers", "Live brokers that this one sees.")


class ApiInstruments:
    """Lookups, HTTP, and the process; the leader's commands are called orders here."""

    def __init__(self) -> None:
        self.lookup_ms = Summary("pulsar_broker_lookup", "Time of a lookup, ms.")
        self.lookup_answers = Total(
            "pulsar_broker_lookup_answers_total", "Lookups that were answered with the owner."
        )
        self.lookup_redirects = Total(
            "pulsar_broker_lookup_redirects_total", "Lookups that were sent to another broker."
        )
        self.lookup_failures = Total(
            "pulsar_broker_lookup_failures_total", "Lookups that ended in an error."
        )
        self.lookups_pending = Gauge(
            "pulsar_broker_lookup_pending_requests", "Lookups in progress."
        )
        self.orders = Counter(
            "broker_ctl_orders_total",
            "Orders of the leader that reached this broker; result: done, or an error's name.",
            ("verb", "result"),
        )
        self.requests = Counter(
            "broker_ctl_http_requests_total",
            "HTTP requests that were answered.",
            ("route", "method", "status"),
        )
        self.in_flight = Gauge(
            "broker_ctl_http_requests_in_flight", "HTTP requests in progress.", ("lane",)
        )
        self.connections = Gauge("broker_ctl_http_connections", "HTTP connections that are open.")
        self.refused_connections = Counter(
            "broker_ctl_http_connections_refused_total",
            "HTTP connections that were refused because there were too many.",
        )
        self.is_ready = Gauge("broker_ctl_ready", "1 while /readyz answers 200.")
        self.task_failures = Total(
            "broker_ctl_task_failures_total",
            "Background tasks that ended with an error nobody had expected.",
        )
        self.dead_tasks = Gauge(
            "broker_ctl_dead_tasks",
            "Background tasks that have failed and are missed; /readyz names the first.",
        )
        self.loop_lag_ms = Histogram(
            "broker_ctl_loop_lag_ms", "How late the event loop ran a timer.", bounds=_LAG_MS
        )


class Instruments:
    """All of them; a floor is given its own group."""

    def __init__(self) -> None:
        self.store = StoreInstruments()
        self.caches = CacheInstruments()
        self.session = SessionInstruments()
        self.bundles = BundleInstruments()
        self.ownership = OwnershipInstruments()
        self.traffic = TrafficInstruments()
        self.leader = LeaderInstruments()
        self.totals = LeaderTotals()
        self.simple = SimpleInstruments()
        self.surface = ApiInstruments()
        self.binary = BinaryInstruments()
        self.controller = ControllerInstruments()
        self.replicas = ReplicaInstruments()
        self.history = HistoryInstruments()

    def __iter__(self) -> Iterator[Instrument]:
        groups = vars(self).values()
        return (instrument for group in groups for instrument in vars(group).values())


def exposed_names() -> frozenset[str]:
    """Names of all series that can be scraped, for whoever checks dashboards and alerts."""
    return frozenset(
        instrument.name + suffix for instrument in Instruments() for suffix in instrument.suffixes
    )
