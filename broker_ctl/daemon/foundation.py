"""What every part of a daemon stands on: settings, clock, stores, the session."""

import random
import secrets
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.coordination.session import AuthorityMode, SessionWatcher
from broker_ctl.core.broker import AdvertisedListener, BrokerUrls
from broker_ctl.daemon import session_file
from broker_ctl.daemon.stores import open_store, read_secret
from broker_ctl.errors import StartError
from broker_ctl.instruments.declared import Instruments, StoreInstruments
from broker_ctl.settings.root import Settings
from broker_ctl.settings.session import StopMode
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.measured import MeasuredStore
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from broker_ctl.surface.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Foundation:
    """Built first.

    Attributes:
        nonce: drawn for this run of the process; tells it from a twin and from an earlier run.
        store: the connection to ZooKeeper, for whoever opens and closes it.
        configuration_store: the same object as ``store`` unless another ensemble is set.
        metadata, configuration: the same stores for all others, with their operations timed.
    """

    settings: Settings
    clock: Clock
    draws: random.Random
    urls: BrokerUrls
    nonce: str
    credentials: Credentials | None
    store: ZooKeeperStore
    configuration_store: ZooKeeperStore
    metadata: MetadataStore
    configuration: MetadataStore
    instruments: Instruments
    watcher: SessionWatcher


def lay(settings: Settings, clock: Clock, draws: random.Random) -> Foundation:
    """Build the foundation.

    Raises:
        StartError, SettingsError: a file that cannot be read, or is no secret or certificate.
    """
    urls = broker_urls(settings)
    nonce, instruments = secrets.token_hex(16), Instruments()
    store, configuration_store = _stores(settings, draws, instruments.store)
    metadata: MetadataStore = MeasuredStore(store, instruments.store, clock)
    configuration = metadata
    if configuration_store is not store:
        configuration = MeasuredStore(configuration_store, instruments.store, clock)
    watcher = SessionWatcher(
        metadata,
        clock,
        broker_id=urls.broker_id,
        nonce=nonce,
        mode=AuthorityMode(settings.session.ownership_authority.value),
        tick_s=settings.zookeeper.tick_time_s,
    )
    return Foundation(
        settings=settings,
        clock=clock,
        draws=draws,
        urls=urls,
        nonce=nonce,
        credentials=_credentials(settings),
        store=store,
        configuration_store=configuration_store,
        metadata=metadata,
        configuration=configuration,
        instruments=instruments,
        watcher=watcher,
    )


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


def _stores(
    settings: Settings, draws: random.Random, instruments: StoreInstruments
) -> tuple[ZooKeeperStore, ZooKeeperStore]:
    """The store of the brokers, and that of the configuration, which may be the same."""
    metadata, session = settings.metadata, settings.session
    if metadata.store_url is None or metadata.configuration_url is None:
        raise StartError("metadataStoreUrl is not set")
    reattach = (0, b"")
    if session.stop_mode is StopMode.KEEP and session.session_directory is not None:
        reattach = session_file.take(session.session_directory)
    store = open_store(
        settings,
        metadata.store_url,
        "metadata-store",
        draws,
        instruments=instruments,
        reattach=reattach,
        max_retries=session.reconnect_max_retries,
    )
    if metadata.configuration_url == metadata.store_url:
        return store, store
    # Nothing is owned there, so an outage of it never ends the process.
    name = "configuration-metadata-store"
    return store, open_store(
        settings, metadata.configuration_url, name, draws, instruments=instruments
    )


def _credentials(settings: Settings) -> Credentials | None:
    security = settings.security
    if not security.authentication_enabled or security.secret_file is None:
        return None
    secret = read_secret(security.secret_file, "tokenSecretKeyFile")
    return Credentials.parse(secret.decode(errors="replace"), security.super_user_roles)
