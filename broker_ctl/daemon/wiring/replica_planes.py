"""The replica plane of this broker, by the settings."""

import logging
import random
from collections.abc import Callable
from typing import Protocol

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.security.rotation import rotating_replication_tls
from broker_ctl.dataplane.bundles.authority import Authority
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.dataplane.replication.directory import DirectoryStorage
from broker_ctl.dataplane.replication.plane import SimulatedReplicas
from broker_ctl.dataplane.replication.storage import MemoryStorage
from broker_ctl.dataplane.replication.tcp import TcpNetwork
from broker_ctl.dataplane.webhook.replicas import ReplicaPlane
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane
from broker_ctl.dataplane.webhook.webhook_replicas import WebhookReplicas
from broker_ctl.errors import DataPlaneRefused, DataPlaneUnreachable, StartError
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.addresses import Address
from broker_ctl.settings.root import Settings

log = logging.getLogger(__name__)


class OwnReplicaPlane(ReplicaPlane, Protocol):
    """A replica plane with start and stop."""

    async def start(self) -> None:
        """Prepare for instructions.

        Raises:
            StartError: the plane is not usable.
        """
        ...

    async def stop(self) -> None:
        """Release all resources; replicas stay on disk."""
        ...


class _ForeignReplicas(WebhookReplicas):
    """Replicas in a broker process that this daemon neither starts nor stops."""

    async def start(self) -> None:
        """Check that the process keeps replicas.

        Raises:
            StartError: it does not.
        """
        try:
            await self.replicas()
        except DataPlaneUnreachable as error:
            # It answered just before; it is asked again before the first instruction.
            log.warning("cannot list the replicas of the broker process: %s; retrying later", error)
        except DataPlaneRefused as error:
            raise StartError(
                f"the broker process keeps no replicas: {error}; unset brokerId"
            ) from None

    async def stop(self) -> None:
        """Does nothing: the process ends its leaderships at the deadline of its authority."""


def build_replica_plane(
    settings: Settings,
    dataplane: DataPlane,
    clock: Clock,
    authority: Callable[[], Authority],
    rng: random.Random,
    *,
    reloader: Reloader,
) -> OwnReplicaPlane:
    """Build the replica plane in the broker process of ``dataplane``.

    A process behind HTTP requests its authority itself, and does not use ``authority``.
    """
    if isinstance(dataplane, WebhookDataPlane):
        return _ForeignReplicas(dataplane.link)
    broker, directory = settings.broker, settings.dataplane.simulated_log_directory
    assert broker.numeric_id is not None, "only who takes part in replication has replicas"
    assert broker.broker_service_port is not None, "such settings are refused"
    return SimulatedReplicas(
        broker.numeric_id,
        str(Address(broker.bind_address, broker.broker_service_port)),
        MemoryStorage() if directory is None else DirectoryStorage(directory),
        TcpNetwork(rotating_replication_tls(settings, reloader)),
        clock=clock,
        authority=authority,
        rng=rng,
    )
