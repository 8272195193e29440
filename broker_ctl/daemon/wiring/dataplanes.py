"""The data plane, by the settings."""

import random

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.security.rotation import dataplane_secret
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.dataplane.bundles.serve_log import FileServeLog
from broker_ctl.dataplane.bundles.simulated import SimulatedDataPlane
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane
from broker_ctl.errors import SettingsError, StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.dataplane import DataPlaneKind, DataPlaneSettings
from broker_ctl.settings.subjects.session import OwnershipAuthority
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.workload.traffic_source import TrafficSource
from broker_ctl.simulation.workload.workload import Workload, workload_of

_ACT_LOG_BYTES = 1 << 30
_MAX_REPLY_BYTES = 16 << 20


def build_dataplane(
    settings: Settings, clock: Clock, rng: random.Random, reloader: Reloader
) -> DataPlane:
    """Build the data plane of this broker.

    Raises:
        StartError: a secret that cannot be read. SettingsError: an unknown workload.
    """
    chosen = settings.dataplane
    match chosen.kind:
        case DataPlaneKind.SIMULATED:
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
        case DataPlaneKind.WEBHOOK:
            if chosen.url is None or chosen.secret_file is None:
                raise StartError("dataPlane=webhook needs dataPlaneUrl and dataPlaneSecretFile")
            http = HttpClient(
                token=dataplane_secret(settings, reloader),
                timeout_s=chosen.request_timeout_s,
                max_body_bytes=_MAX_REPLY_BYTES,
            )
            return WebhookDataPlane(
                str(chosen.url), http, clock, failure_timeout_s=chosen.failure_timeout_s
            )
        case DataPlaneKind.PULSAR:
            raise StartError("dataPlane=pulsar: the cluster's brokers serve, this daemon does not")


def require_safe_authority(settings: Settings, dataplane: DataPlane) -> None:
    """Check that ownership without a lease has a storage that rejects stale fencing tokens.

    Raises:
        StartError: the data plane does not declare such a storage.
    """
    is_storage = settings.session.ownership_authority is OwnershipAuthority.STORAGE
    if is_storage and not dataplane.declared.storage_refuses_old_tokens:
        raise StartError(
            "ownershipAuthority=storage: needs a data plane whose storage rejects stale fencing "
            "tokens, which this one does not declare; use ownershipAuthority=lease"
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
