"""What serves the messages."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.addresses import HttpUrl
from broker_ctl.settings.model import Setting


class DataPlaneKind(StrEnum):
    """Which data plane stands behind this daemon."""

    SIMULATED = "simulated"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class DataPlaneSettings:
    """Data plane: what serves the messages."""

    kind: Annotated[
        DataPlaneKind,
        Setting(
            "dataPlane",
            "simulated: a made-up workload; webhook: a broker process that is called over HTTP.",
        ),
    ] = DataPlaneKind.SIMULATED
    url: Annotated[
        HttpUrl | None,
        Setting(
            "dataPlaneUrl",
            "Where the broker process of dataPlane=webhook is called.",
            allowed="http://host:port/path",
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        Setting(
            "dataPlaneSecretFile",
            "File with the bearer secret that broker process and daemon show each other.",
        ),
    ] = None
    request_timeout_ms: Annotated[
        int,
        Setting(
            "dataPlaneRequestTimeoutMillis",
            "Deadline of a request to the broker process.",
            at_least=1,
        ),
    ] = 5000
    failure_timeout_ms: Annotated[
        int,
        Setting(
            "dataPlaneFailureTimeoutMillis",
            "Silence of the broker process after which this broker gives its bundles up.",
            at_least=1,
        ),
    ] = 10_000
    simulated_workload: Annotated[
        str,
        Setting(
            "simulatedWorkload",
            "Scenario or trace file that dataPlane=simulated plays; empty: no traffic.",
        ),
    ] = ""
    simulated_act_log: Annotated[
        Path | None,
        Setting("simulatedActLog", "File to which dataPlane=simulated writes each of its acts."),
    ] = None
    simulated_seed: Annotated[
        int, Setting("simulatedSeed", "Seed of the draws of dataPlane=simulated.")
    ] = 0
    simulated_origin_s: Annotated[
        float | None,
        Setting(
            "simulatedOriginSeconds",
            "Start of the workload on CLOCK_BOOTTIME, to share it; empty: when the daemon starts.",
        ),
    ] = None

    @property
    def request_timeout_s(self) -> float:
        """In seconds."""
        return self.request_timeout_ms / 1000

    @property
    def failure_timeout_s(self) -> float:
        """In seconds."""
        return self.failure_timeout_ms / 1000
