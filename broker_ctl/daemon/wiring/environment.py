"""What a daemon reaches beyond its own memory, in one place (docs: session-scope, stopping).

A process reaches ZooKeeper, sockets, a disk and this machine; the deterministic composition is
given each of them in memory. No part of a daemon asks which.
"""

import random
from collections.abc import Callable

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.peers import HttpPeers, Peers
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.commands import HandleCommand
from broker_ctl.daemon.wiring import session_file
from broker_ctl.daemon.wiring.dataplanes import build_dataplane
from broker_ctl.daemon.wiring.load_reports import host_usage
from broker_ctl.daemon.wiring.replica_planes import OwnReplicaPlane, build_replica_plane
from broker_ctl.daemon.wiring.stores import OwnStore, open_stores
from broker_ctl.dataplane.bundles.authority import Authority
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.session import StopMode


class Environment:
    """That of a process; the rehearsal and tests put other things in place of some.

    Attributes:
        clock: the only one that any part reads.
        rng: the only source of chance, the nonce of this run included.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.clock = clock
        self.rng = rng

    def open_stores(
        self, settings: Settings, instruments: StoreInstruments, /
    ) -> tuple[OwnStore, OwnStore]:
        """The stores of the brokers and of the configuration, on ZooKeeper; may be one object.

        A session that was kept is continued.

        Raises:
            StartError: a store that is not set, or a file that cannot be read.
        """
        kept = (0, b"")
        directory = settings.session.session_directory
        if settings.session.stop_mode is StopMode.KEEP and directory is not None:
            kept = session_file.take(directory)
        return open_stores(settings, self.rng, instruments, kept)

    def keep_session(self, settings: Settings, session_id: int, password: bytes, /) -> bool:
        """Leave the session, in a file, to the daemon that starts next; false: not configured."""
        directory = settings.session.session_directory
        if settings.session.stop_mode is not StopMode.KEEP or directory is None:
            return False
        session_file.save(directory, session_id, password)
        return True

    def dataplane(self, settings: Settings, /) -> DataPlane:
        """What serves the messages of this broker.

        Raises:
            StartError: a secret that cannot be read. SettingsError: an unknown workload.
        """
        return build_dataplane(settings, self.clock, self.rng)

    def host_usage(self, settings: Settings, /) -> UsageSource:
        """How much of this machine is used, from the process table."""
        return host_usage(settings, self.clock)

    def peers(self, registry: Registry, http: HttpClient, own: HandleCommand, /) -> Peers:
        """How commands reach the other brokers: over HTTP; ``own`` handles those for this one."""
        return HttpPeers(registry, http, own)

    def replica_plane(
        self, settings: Settings, dataplane: DataPlane, authority: Callable[[], Authority], /
    ) -> OwnReplicaPlane:
        """What keeps this broker's replicas: the broker process that the data plane is.

        Writes are taken while ``authority`` is valid.
        """
        return build_replica_plane(settings, dataplane, self.clock, authority)

    def calls(self, http: HttpClient, /) -> HttpClient:
        """How the controller and brokers call each other's daemons about partitions."""
        return http

    def api(self, dependencies: Dependencies, rules: ApiRules, /) -> ApiServer:
        """What answers requests to this daemon."""
        return ApiServer(dependencies, rules)
