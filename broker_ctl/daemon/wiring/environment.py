"""The environment of a daemon: everything outside of its memory (docs: session-scope, stopping).

In a process these are ZooKeeper, sockets, a disk and the machine; deterministic tests put objects
in memory in their place. No part of a daemon sees the difference.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.cluster import HttpPeers, Peers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.commands import HandleCommand
from broker_ctl.daemon.wiring import stores
from broker_ctl.daemon.wiring.dataplanes import (
    OwnReplicaPlane,
    build_dataplane,
    build_replica_plane,
    host_usage,
)
from broker_ctl.daemon.wiring.stores import OwnStore, open_stores
from broker_ctl.dataplane.bundles.interface import Authority, DataPlane
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.peer_http import PeerHttp
from broker_ctl.products import Product, load
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.addresses import StateUrl
from broker_ctl.settings.conditions import BY_ADMIN_API
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.session import StopMode
from broker_ctl.store.interface import NO_SESSION, SavedSession


class BuildStateStore(Protocol):
    """Builds the store of a daemon that reads its cluster without ZooKeeper."""

    def __call__(
        self,
        settings: Settings,
        url: StateUrl,
        clock: Clock,
        rng: random.Random,
        *,
        is_observer: bool,
    ) -> OwnStore:
        """Build it, not started.

        Raises:
            StartError: the account of the pod cannot be read.
        """
        ...


class Environment:
    """The environment of a process; the rehearsal and tests override parts of it.

    Attributes:
        clock: the only clock of all parts.
        rng: the only source of randomness, also of this run's nonce.
        reloader: watches files of secrets and certificates.

    Args:
        is_observer: whether the daemon is to write nothing, nor to keep others from acting.
    """

    def __init__(self, clock: Clock, rng: random.Random, *, is_observer: bool = False) -> None:
        self.clock = clock
        self.rng = rng
        self._is_observer = is_observer
        self.reloader = Reloader()

    def open_stores(
        self, settings: Settings, instruments: StoreInstruments, /
    ) -> tuple[OwnStore, OwnStore]:
        """Open the stores of the brokers and of the configuration, which may be one object.

        A kept session is resumed.

        Raises:
            StartError: a store that is not set, or a file that cannot be read.
        """
        if BY_ADMIN_API.holds(settings) and settings.pulsar.state_url is not None:
            build = cast("BuildStateStore", load(Product.ATTACHED_STATE).build_state_store)
            url, is_observer = settings.pulsar.state_url, self._is_observer
            store = build(settings, url, self.clock, self.rng, is_observer=is_observer)
            return store, store
        directory = _session_directory(settings)
        kept = NO_SESSION if directory is None else stores.take(directory)
        return open_stores(settings, self.rng, instruments, kept, self.reloader)

    def keeps_session(self, settings: Settings, /) -> bool:
        """Whether a daemon that stops leaves its session for the next start."""
        return _session_directory(settings) is not None

    def keep_session(self, settings: Settings, session: SavedSession, /) -> None:
        """Save the session for the next start."""
        if (directory := _session_directory(settings)) is not None:
            stores.save(directory, session)

    def dataplane(self, settings: Settings, /) -> DataPlane:
        """Build the data plane of this broker.

        Raises:
            StartError: a secret that cannot be read. SettingsError: an unknown workload.
        """
        return build_dataplane(settings, self.clock, self.rng, self.reloader)

    def host_usage(self, settings: Settings, /) -> UsageSource:
        """Build the source of this machine's resource usage."""
        return host_usage(settings, self.clock)

    def peers(self, registry: Registry, http: PeerHttp, own: HandleCommand, /) -> Peers:
        """How commands reach the other brokers: over HTTP; ``own`` handles those for this one."""
        return HttpPeers(registry, http, own)

    def replica_plane(
        self, settings: Settings, dataplane: DataPlane, authority: Callable[[], Authority], /
    ) -> OwnReplicaPlane:
        """Build the replica plane, in the broker process of the data plane.

        It accepts writes while ``authority`` is valid.
        """
        return build_replica_plane(
            settings, dataplane, self.clock, authority, self.rng, reloader=self.reloader
        )

    def calls(self, http: HttpClient, /) -> HttpClient:
        """The HTTP client for calls between controller and brokers."""
        return http

    def api(self, dependencies: Dependencies, rules: ApiRules, /) -> ApiServer:
        """Build the API server of this daemon."""
        return ApiServer(dependencies, rules)


def _session_directory(settings: Settings) -> Path | None:
    """Where the session is kept over a restart; None: it is not."""
    session = settings.session
    return session.session_directory if session.stop_mode is StopMode.KEEP else None
