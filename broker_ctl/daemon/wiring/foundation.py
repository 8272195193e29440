"""Parts that all others use: settings, clock, stores, session."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.election import Election
from broker_ctl.coordination.election_node import ElectionRecords
from broker_ctl.coordination.membership.registry import lease_node
from broker_ctl.coordination.session import AuthorityMode, SessionWatcher
from broker_ctl.core.model.broker import AdvertisedListener, AllowedHosts, BrokerUrls
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.security import (
    build_audit_log,
    build_authentication,
    newest_cluster_keys,
    signed_store,
)
from broker_ctl.daemon.wiring.stores import TickCheck, batched_store
from broker_ctl.instruments.declared import Instruments
from broker_ctl.peer_http import PeerAddresses
from broker_ctl.settings.addresses import Listener
from broker_ctl.settings.publishing import admin_urls
from broker_ctl.settings.root import Settings
from broker_ctl.store.instrumented import InstrumentedStore, RetryingStore, WriteGate
from broker_ctl.store.paths import ElectionPaths
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.store.watched_cache import CacheRules
from broker_ctl.tasks import TaskFaults
from broker_ctl.tracing.spans import build_tracer

T = TypeVar("T")


class Foundation:
    """The parts that are built first.

    Attributes:
        environment: the world outside.
        nonce: random; identifies this run of the process among twins and earlier runs.
        store: the session with ZooKeeper, to be opened and closed.
        configuration_store: the same object as ``store`` unless another ensemble is set.
        gate: what ``store`` is written through beside Java brokers, who may migrate their metadata;
            None: nobody else writes, and nobody may have to stop.
        control: the same for locks, elections and heartbeats, with its operations timed.
        metadata, configuration: the same stores for all others, whose requests are batched.
        lasting, lasting_configuration: these two, for writes that own nothing. One object where
            there is one store.
        cluster_keys: sign and verify what daemons say to each other; None: nothing is signed.
        audit: the audit log.
        tracer: None: nothing is traced.
        addresses: decides at which web addresses other brokers are called.
        faults: of background tasks, all that are started while the daemon runs.
        deletions: own nodes that must go while the session lives on.

    Raises:
        StartError, SettingsError: a file that cannot be read, or is not a secret or certificate.
    """

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self.settings: Final = settings
        self.environment: Final = environment
        self.clock: Final = environment.clock
        self.rng: Final = environment.rng
        self.instruments: Final = Instruments()
        self.urls: Final = broker_urls(settings)
        self.nonce: Final = f"{self.rng.getrandbits(128):032x}"
        self.authentication: Final = build_authentication(
            settings, self.clock, environment.reloader
        )
        self.cluster_keys: Final = newest_cluster_keys(
            settings, self.authentication, environment.reloader
        )
        timed, clock = self.instruments.store, self.clock
        self.store, self.configuration_store = environment.open_stores(settings, timed)
        is_mixed = settings.broker.allow_mixed_cluster
        self.gate: Final = WriteGate(self.store) if is_mixed else None
        signed = signed_store(self.gate or self.store, settings, self.cluster_keys, timed, clock)
        self.control: Final = InstrumentedStore(signed, timed, clock)
        self.metadata: Final = batched_store(signed, settings, timed, clock)
        self.lasting: Final = RetryingStore(self.metadata)
        self.configuration, self.lasting_configuration = self.metadata, self.lasting
        if self.configuration_store is not self.store:
            self.configuration = batched_store(self.configuration_store, settings, timed, clock)
            self.lasting_configuration = RetryingStore(self.configuration)
        self.watcher: Final = SessionWatcher(
            self.control,
            clock,
            node=lease_node(self.urls.broker_id, self.nonce),
            mode=AuthorityMode(settings.session.ownership_authority.value),
            tick_s=settings.zookeeper.tick_time_s,
            rng=self.rng,
        )
        self.audit: Final = build_audit_log(settings, self.urls.broker_id, clock)
        self.tracer: Final = build_tracer(
            "" if settings.tracing.endpoint is None else str(settings.tracing.endpoint),
            settings.tracing.request_ratio,
            cluster=settings.broker.cluster_name,
            broker_id=self.urls.broker_id,
        )
        self.addresses: Final = PeerAddresses(
            AllowedHosts.parse(settings.security.peer_allowed_hosts)
        )
        self.ticks: Final = TickCheck(settings)
        self.deletions: Final = Deletions(self.control, rng=self.rng)
        self.faults: Final = TaskFaults()
        self.cache_rules: Final = CacheRules.expiring(settings.metadata.cache_expiry_s)

    @property
    def own_leader(self) -> LeaderBroker:
        """This process, as it stands for election."""
        return LeaderBroker(self.urls.broker_id, self.urls.web_url or self.urls.web_url_tls or "")

    def build_election(
        self, name: ElectionPaths, records: ElectionRecords | None = None
    ) -> Election:
        """Candidacy for an election, which follows the session."""
        election = Election(
            self.control,
            self.watcher,
            self.deletions,
            clock=self.clock,
            election_name=name,
            leader=self.own_leader,
            rng=self.rng,
            records=records,
        )
        self.watcher.listen(election.on_session_action)
        return election


def while_leading(election: Election, value: T) -> Callable[[], T | None]:
    """The balancer, or what it answers, while this process leads: valid at no other time."""
    return lambda: value if election.leadership is not None else None


def broker_urls(settings: Settings) -> BrokerUrls:
    """Where this broker says that it is reached."""
    broker = settings.broker
    return BrokerUrls(
        broker.broker_id,
        broker.web_service_url,
        broker.web_service_url_tls,
        broker.broker_service_url,
        broker.broker_service_url_tls,
        grouped(broker.advertised_listeners),
        *admin_urls(settings),
    )


def grouped(listeners: Iterable[Listener]) -> tuple[AdvertisedListener, ...]:
    """The addresses of each listener, by the schemes of its entries."""
    urls: dict[str, dict[str, str]] = {}
    for one in listeners:
        urls.setdefault(one.name, {})[one.scheme] = one.url
    return tuple(
        AdvertisedListener(
            name,
            found.get("pulsar"),
            found.get("pulsar+ssl"),
            found.get("http"),
            found.get("https"),
        )
        for name, found in sorted(urls.items())
    )
