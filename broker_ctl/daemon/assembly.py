"""Builds every part of a daemon from its settings, and starts none of them."""

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

from broker_ctl.clock import Clock
from broker_ctl.coordination.cluster import LiveCluster
from broker_ctl.coordination.deletions import Deletions
from broker_ctl.coordination.election import Election
from broker_ctl.coordination.locks import Locks
from broker_ctl.coordination.moves import Moves
from broker_ctl.coordination.peers import HttpPeers
from broker_ctl.coordination.registry import Registry
from broker_ctl.coordination.session import AuthorityMode, SessionWatcher
from broker_ctl.core.broker import AdvertisedListener, BrokerUrls
from broker_ctl.daemon import session_file
from broker_ctl.daemon.dataplanes import build_dataplane
from broker_ctl.daemon.leading import leader_rules
from broker_ctl.daemon.reporting import report_rules, usage_source
from broker_ctl.daemon.stores import open_store, read_secret
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.errors import CorruptRecord, StartError
from broker_ctl.http import HttpClient
from broker_ctl.instruments.declared import Instruments
from broker_ctl.leader.controller import Controller
from broker_ctl.leader.parts import LeaderParts
from broker_ctl.managers.dataplane_watch import DataPlaneWatch
from broker_ctl.managers.history import HistoryWriter
from broker_ctl.managers.journal import DecisionJournal
from broker_ctl.managers.load_report import LoadReporter
from broker_ctl.managers.lookup import Lookup
from broker_ctl.managers.namespaces import Namespaces
from broker_ctl.managers.orders import OwnOrders
from broker_ctl.managers.owners import Owners
from broker_ctl.managers.ownership import Ownership, OwnershipParts
from broker_ctl.settings.root import Settings
from broker_ctl.settings.session import StopMode
from broker_ctl.store import paths
from broker_ctl.store.interface import Versioned
from broker_ctl.store.records.ours import Registration
from broker_ctl.store.records.ownership import LeaderBroker, NamespaceEphemeralData
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from broker_ctl.surface.credentials import Credentials
from broker_ctl.surface.parts import Parts, Readiness, SurfaceRules
from broker_ctl.surface.server import Surface

_PEER_REPLY_BYTES = 1 << 20
_PEER_TIMEOUT_S = 10.0
# Authority without an end is told as a day; whoever pulls it asks again long before.
_LONGEST_S = 86_400.0


@dataclass(slots=True)
class ReadinessNow:
    """What /readyz answers; the lifecycle writes it."""

    now: Readiness = field(default_factory=lambda: Readiness(is_ready=False, reason="starting"))


@dataclass(frozen=True, slots=True)
class Assembly:
    """Every part of a daemon, wired and not yet started."""

    settings: Settings
    store: ZooKeeperStore
    configuration_store: ZooKeeperStore
    watcher: SessionWatcher
    registry: Registry
    moves: Moves
    locks: Locks
    deletions: Deletions
    election: Election
    namespaces: Namespaces
    owners: Owners
    ownership: Ownership
    dataplane: DataPlane
    dataplane_watch: DataPlaneWatch
    reporter: LoadReporter
    controller: Controller
    journal: DecisionJournal
    peers_http: HttpClient
    surface: Surface
    readiness: ReadinessNow


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


def _stores(settings: Settings, draws: random.Random) -> tuple[ZooKeeperStore, ZooKeeperStore]:
    """The store of the brokers, and that of the configuration, which may be the same."""
    metadata, session = settings.metadata, settings.session
    if metadata.store_url is None or metadata.configuration_url is None:
        raise StartError("metadataStoreUrl is not set")
    reattach = (0, b"")
    if session.stop_mode is StopMode.KEEP and session.session_directory is not None:
        reattach = session_file.take(session.session_directory)
    store = open_store(settings, metadata.store_url, "metadata-store", draws, reattach)
    if metadata.configuration_url == metadata.store_url:
        return store, store
    name = "configuration-metadata-store"
    return store, open_store(settings, metadata.configuration_url, name, draws)


def _broker_of(node: Versioned) -> str | None:
    try:
        return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
    except CorruptRecord:
        return None


def _credentials(settings: Settings) -> Credentials | None:
    security = settings.security
    if not security.authentication_enabled or security.secret_file is None:
        return None
    secret = read_secret(security.secret_file, "tokenSecretKeyFile")
    return Credentials.parse(secret.decode(errors="replace"), security.super_user_roles)


def _surface_rules(settings: Settings, credentials: Credentials | None) -> SurfaceRules:
    secret_file = settings.dataplane.secret_file
    secret = None if secret_file is None else read_secret(secret_file, "dataPlaneSecretFile")
    return SurfaceRules(
        cluster=settings.broker.cluster_name,
        address=settings.broker.bind_address,
        port=settings.broker.web_service_port,
        max_body_bytes=settings.surface.max_body_bytes,
        max_requests=settings.surface.max_requests_in_flight,
        max_lookups=settings.surface.max_concurrent_lookups,
        split_algorithm=settings.splitting.default_algorithm,
        credentials=credentials,
        dataplane_secret=None if secret is None else secret.decode(errors="replace"),
    )


def assemble(settings: Settings, clock: Clock, draws: random.Random) -> Assembly:
    """Wire a daemon.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """
    urls, tick_s = broker_urls(settings), settings.zookeeper.tick_time_s
    credentials = _credentials(settings)
    store, configuration_store = _stores(settings, draws)
    nonce = secrets.token_hex(16)
    watcher = SessionWatcher(
        store,
        clock,
        broker_id=urls.broker_id,
        nonce=nonce,
        mode=AuthorityMode(settings.session.ownership_authority.value),
        tick_s=tick_s,
    )
    registration = Registration(nonce, 0, clock.wall_ms(), urls)
    registry = Registry(store, registration, tick_s)
    moves, deletions = Moves(store), Deletions(store)
    locks = Locks(
        store, paths.OWNERSHIP, broker_id=urls.broker_id, broker_of=_broker_of, draws=draws
    )
    election = Election(
        store,
        watcher,
        clock=clock,
        seat=paths.LOADBALANCE_SEAT,
        leader=LeaderBroker(urls.broker_id, urls.web_url or urls.web_url_tls or ""),
        draws=draws,
    )
    namespaces = Namespaces(
        store,
        configuration_store,
        cluster=settings.broker.cluster_name,
        default_bundles=settings.splitting.default_bundles,
    )
    owners = Owners(store, registry, clock, settings.session.reclaim_grace_s)
    dataplane = build_dataplane(settings, clock, draws)
    ownership = Ownership(
        OwnershipParts(
            store=store,
            watcher=watcher,
            locks=locks,
            namespaces=namespaces,
            owners=owners,
            moves=moves,
            deletions=deletions,
            dataplane=dataplane,
        ),
        urls,
        settings.session.bundle_unloading_timeout_s,
    )
    watcher.listen(locks.session_changed)
    watcher.listen(election.session_changed)
    watcher.listen_grants(ownership.granted)
    orders = OwnOrders(
        ownership=ownership,
        owners=owners,
        moves=moves,
        watcher=watcher,
        seat=paths.LOADBALANCE_SEAT,
    )
    http = HttpClient(
        token=None if credentials is None else credentials.own_token,
        timeout_s=_PEER_TIMEOUT_S,
        max_body_bytes=_PEER_REPLY_BYTES,
    )
    history = settings.history.directory
    journal = DecisionJournal(
        None if history is None else HistoryWriter(history, urls.broker_id, clock)
    )
    controller = Controller(
        LeaderParts(
            store=store,
            registry=registry,
            moves=moves,
            peers=HttpPeers(registry, http, orders),
            clock=clock,
            journal=journal,
            rules=lambda: leader_rules(settings),
            ring_of=namespaces.ring,
            owner_of=owners.owner_of,
        ),
    )
    reporter = LoadReporter(
        dataplane=dataplane,
        usage=usage_source(settings, dataplane, clock),
        registry=registry,
        clock=clock,
        rules=lambda: report_rules(settings),
        urls=urls,
        version=version("broker-ctl"),
    )
    cluster, readiness = LiveCluster(registry, election), ReadinessNow()
    is_leading = _while_leading(election, controller)
    lookup = Lookup(
        ownership=ownership,
        namespaces=namespaces,
        cluster=cluster,
        placement=is_leading,
        clock=clock,
    )
    surface = Surface(
        Parts(
            lookup=lookup,
            ownership=ownership,
            namespaces=namespaces,
            reporter=reporter,
            orders=orders,
            cluster=cluster,
            desk=is_leading,
            journal=journal,
            readiness=lambda: readiness.now,
            authority=lambda: _authority(watcher, clock),
            session_state=lambda: watcher.state,
            peers=http,
            instruments=Instruments(),
            clock=clock,
        ),
        _surface_rules(settings, credentials),
    )
    return Assembly(
        settings=settings,
        store=store,
        configuration_store=configuration_store,
        watcher=watcher,
        registry=registry,
        moves=moves,
        locks=locks,
        deletions=deletions,
        election=election,
        namespaces=namespaces,
        owners=owners,
        ownership=ownership,
        dataplane=dataplane,
        dataplane_watch=DataPlaneWatch(
            dataplane, ownership, clock, settings.dataplane.failure_timeout_s
        ),
        reporter=reporter,
        controller=controller,
        journal=journal,
        peers_http=http,
        surface=surface,
        readiness=readiness,
    )


def _while_leading(election: Election, controller: Controller) -> Callable[[], Controller | None]:
    """The controller while it leads; nothing it says counts at other times."""
    return lambda: controller if election.leadership is not None else None


def _authority(watcher: SessionWatcher, clock: Clock) -> tuple[int, int]:
    """Session epoch, and for how many milliseconds acts may still be started."""
    remaining_s = watcher.deadline_s - clock.now_s()
    return watcher.epoch, round(min(max(remaining_s, 0.0), _LONGEST_S) * 1000)
