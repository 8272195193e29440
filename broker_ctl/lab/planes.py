"""The simulated broker process of this daemon: its bundles and its replicas, by the settings."""

import random
import ssl
from collections.abc import Callable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.bundles.serve_log import FileServeLog
from broker_ctl.errors import SettingsError
from broker_ctl.lab.replication.plane import SimulatedReplicas
from broker_ctl.lab.replication.storage import DirectoryStorage, MemoryStorage
from broker_ctl.lab.replication.tcp import ReplicationTls, TcpNetwork
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.settings.addresses import Address
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.dataplane import DataPlaneSettings
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.workload.workload import TrafficSource, Workload, workload_of

_ACT_LOG_BYTES: Final = 1 << 30


def build_dataplane(settings: Settings, clock: Clock, rng: random.Random) -> SimulatedDataPlane:
    """Build the bundles of the simulated broker process.

    Raises:
        SettingsError: an unknown workload.
    """
    chosen = settings.dataplane
    workload, path = _workload(chosen), chosen.simulated_act_log
    return SimulatedDataPlane(
        workload,
        clock,
        broker_id=settings.broker.broker_id,
        rng=rng,
        serve_log=None if path is None else FileServeLog(path, _ACT_LOG_BYTES),
        capacity=_capacity(chosen, workload.capacity_of(settings.broker.broker_id)),
        origin_s=chosen.simulated_start_s,
        minute_s=chosen.simulated_minute_s,
    )


def build_replica_plane(
    settings: Settings,
    clock: Clock,
    authority: Callable[[], Authority],
    rng: random.Random,
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None,
) -> SimulatedReplicas:
    """Build its replicas, which accept writes while ``authority`` is valid.

    ``contexts`` serve and call; None: the replication port has no TLS.
    """
    broker, directory = settings.broker, settings.dataplane.simulated_log_directory
    assert broker.numeric_id is not None, "only who takes part in replication has replicas"
    assert broker.broker_service_port is not None, "such settings are refused"
    tls = None if contexts is None else ReplicationTls(broker.cluster_name, *contexts)
    return SimulatedReplicas(
        broker.numeric_id,
        str(Address(broker.bind_address, broker.broker_service_port)),
        MemoryStorage() if directory is None else DirectoryStorage(directory),
        TcpNetwork(tls),
        clock=clock,
        authority=authority,
        rng=rng,
    )


def _workload(chosen: DataPlaneSettings) -> TrafficSource:
    text = chosen.simulated_workload
    if not text:
        return Workload("", ())
    try:
        return workload_of(text, chosen.simulated_seed, chosen.simulated_brokers)
    except SettingsError as error:
        raise SettingsError(f"simulatedWorkload={text}: {error}") from error


def _capacity(chosen: DataPlaneSettings, usual: Capacity) -> Capacity:
    return Capacity(
        chosen.simulated_max_msg_per_s or usual.msg_rate,
        chosen.simulated_max_bytes_per_s or usual.bytes_s,
    )
