"""What every part of a daemon uses: settings, clock, stores, the session."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from broker_ctl.api.http.credentials import Credentials
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.clock import Clock
from broker_ctl.coordination.election.election import Election
from broker_ctl.coordination.election.election_records import ElectionRecords
from broker_ctl.coordination.locks.pending_deletions import Deletions
from broker_ctl.coordination.session.watcher import AuthorityMode, SessionWatcher
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import OwnStore, batched_store, read_secret
from broker_ctl.daemon.wiring.tick_check import TickCheck
from broker_ctl.instruments.declared import Instruments
from broker_ctl.settings.root import Settings
from broker_ctl.store.across_sessions import RetryingStore
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.instrumented import InstrumentedStore
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.paths import ElectionName
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.tasks import TaskFaults


@dataclass(frozen=True, slots=True)
class Foundation:
    """Built first.

    Attributes:
        environment: the world outside.
        nonce: random; identifies this run of the process among twins and earlier runs.
        store: the session with ZooKeeper, to be opened and closed.
        configuration_store: the same object as ``store`` unless another ensemble is set.
        control: the same for locks, elections and heartbeats, with its operations timed.
        metadata, configuration: the same stores for all others, whose requests are batched.
        lasting, lasting_configuration: these two, for writes that own nothing. One object where
            there is one store.
        faults: of background tasks, all that are started while the daemon runs.
        deletions: own nodes that must go while the session lives on.
    """

    settings: Settings
    environment: Environment
    clock: Clock
    rng: random.Random
    urls: BrokerUrls
    nonce: str
    credentials: Credentials | None
    store: OwnStore
    configuration_store: OwnStore
    control: MetadataStore
    metadata: MetadataStore
    configuration: MetadataStore
    lasting: MetadataStore
    lasting_configuration: MetadataStore
    instruments: Instruments
    watcher: SessionWatcher
    ticks: TickCheck
    deletions: Deletions
    faults: TaskFaults
    cache_rules: CacheRules

    @property
    def own_leader(self) -> LeaderBroker:
        """This process, as it stands for election."""
        return LeaderBroker(self.urls.broker_id, self.urls.web_url or self.urls.web_url_tls or "")


def build_foundation(settings: Settings, environment: Environment) -> Foundation:
    """Build the foundation.

    Raises:
        StartError, SettingsError: a file that cannot be read, or is not a secret or certificate.
    """
    urls = broker_urls(settings)
    clock, rng, instruments = environment.clock, environment.rng, Instruments()
    nonce = f"{rng.getrandbits(128):032x}"
    store, configuration_store = environment.open_stores(settings, instruments.store)
    control = InstrumentedStore(store, instruments.store, clock)
    metadata = batched_store(store, settings, instruments.store, clock)
    configuration, lasting = metadata, RetryingStore(metadata)
    lasting_configuration = lasting
    if configuration_store is not store:
        configuration = batched_store(configuration_store, settings, instruments.store, clock)
        lasting_configuration = RetryingStore(configuration)
    watcher = SessionWatcher(
        control,
        clock,
        broker_id=urls.broker_id,
        nonce=nonce,
        mode=AuthorityMode(settings.session.ownership_authority.value),
        tick_s=settings.zookeeper.tick_time_s,
        rng=rng,
    )
    return Foundation(
        settings=settings,
        environment=environment,
        clock=clock,
        rng=rng,
        urls=urls,
        nonce=nonce,
        credentials=credentials_of(settings),
        store=store,
        configuration_store=configuration_store,
        control=control,
        metadata=metadata,
        configuration=configuration,
        lasting=lasting,
        lasting_configuration=lasting_configuration,
        instruments=instruments,
        watcher=watcher,
        ticks=TickCheck(settings),
        deletions=Deletions(control, rng=rng),
        faults=TaskFaults(),
        cache_rules=CacheRules.expiring(settings.metadata.cache_expiry_s),
    )


def build_election(
    base: Foundation, name: ElectionName, records: ElectionRecords | None = None
) -> Election:
    """Candidacy for an election, which follows the session."""
    election = Election(
        base.control,
        base.watcher,
        base.deletions,
        clock=base.clock,
        election_name=name,
        leader=base.own_leader,
        rng=base.rng,
        records=records,
    )
    base.watcher.listen(election.on_session_action)
    return election


def while_leading(election: Election, balancer: LoadBalancer) -> Callable[[], LoadBalancer | None]:
    """The balancer while this process leads; its answers are valid at no other time."""
    return lambda: balancer if election.leadership is not None else None


def broker_urls(settings: Settings) -> BrokerUrls:
    """Where this broker says that it is reached."""
    broker = settings.broker
    listeners: dict[str, AdvertisedListener] = {}
    for listener in broker.advertised_listeners:
        found = listeners.get(listener.name, AdvertisedListener(listener.name))
        is_tls = listener.scheme.endswith("+ssl")
        listeners[listener.name] = AdvertisedListener(
            listener.name,
            found.native_url if is_tls else listener.url,
            listener.url if is_tls else found.native_url_tls,
        )
    return BrokerUrls(
        broker.broker_id,
        broker.web_service_url,
        broker.web_service_url_tls,
        broker.broker_service_url,
        broker.broker_service_url_tls,
        tuple(sorted(listeners.values())),
    )


def credentials_of(settings: Settings) -> Credentials | None:
    """Tokens that requests need; None: they need none.

    Raises:
        StartError, SettingsError: a secret file that cannot be read, or is not a secret.
    """
    security = settings.security
    if not security.authentication_enabled or security.secret_file is None:
        return None
    secret = read_secret(security.secret_file, "tokenSecretKeyFile")
    return Credentials.parse(
        secret.decode(errors="replace"), security.super_user_roles, security.read_only_roles
    )
