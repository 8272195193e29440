"""The data plane that the settings ask for."""

import random

from broker_ctl.clock import Clock
from broker_ctl.daemon.stores import read_secret
from broker_ctl.dataplane.act_log import FileActLog
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.dataplane.simulated import SimulatedDataPlane
from broker_ctl.dataplane.webhook import WebhookDataPlane
from broker_ctl.errors import StartError
from broker_ctl.http import HttpClient
from broker_ctl.settings.dataplane import DataPlaneKind
from broker_ctl.settings.root import Settings
from broker_ctl.simulation.workload import Workload, workload_of

_ACT_LOG_BYTES = 1 << 30
_MAX_REPLY_BYTES = 16 << 20


def build_dataplane(settings: Settings, clock: Clock, draws: random.Random) -> DataPlane:
    """What serves the messages of this broker.

    Raises:
        StartError: a secret that cannot be read. SettingsError: an unknown workload.
    """
    chosen = settings.dataplane
    match chosen.kind:
        case DataPlaneKind.SIMULATED:
            text = chosen.simulated_workload
            workload = workload_of(text, chosen.simulated_seed) if text else Workload("", ())
            path = chosen.simulated_act_log
            return SimulatedDataPlane(
                workload,
                clock,
                broker_id=settings.broker.broker_id,
                draw=draws,
                act_log=None if path is None else FileActLog(path, _ACT_LOG_BYTES),
                origin_s=chosen.simulated_origin_s,
            )
        case DataPlaneKind.WEBHOOK:
            if chosen.url is None or chosen.secret_file is None:
                raise StartError("dataPlane=webhook needs dataPlaneUrl and dataPlaneSecretFile")
            http = HttpClient(
                token=read_secret(chosen.secret_file, "dataPlaneSecretFile"),
                timeout_s=chosen.request_timeout_s,
                max_body_bytes=_MAX_REPLY_BYTES,
            )
            return WebhookDataPlane(
                str(chosen.url), http, clock, failure_timeout_s=chosen.failure_timeout_s
            )
