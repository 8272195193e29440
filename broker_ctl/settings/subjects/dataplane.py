"""What serves the messages."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.addresses import HttpUrl
from broker_ctl.settings.conditions import OWN_BROKER, SIMULATED, WEBHOOK, given
from broker_ctl.settings.schema import Setting


class DataPlaneKind(StrEnum):
    """Which data plane stands behind this daemon."""

    SIMULATED = "simulated"
    WEBHOOK = "webhook"
    PULSAR = "pulsar"


@dataclass(frozen=True, slots=True)
class DataPlaneSettings:
    """Data plane: what serves the messages."""

    kind: Annotated[
        DataPlaneKind,
        Setting(
            "dataPlane",
            "simulated: a made-up workload; webhook: a broker process that is called over HTTP; "
            "pulsar: a cluster of Pulsar brokers, balanced from outside.",
        ),
    ] = DataPlaneKind.SIMULATED
    url: Annotated[
        HttpUrl | None,
        Setting(
            "dataPlaneUrl",
            "Where the broker process of dataPlane=webhook is called.",
            allowed="http://host:port/path",
            used_with=(WEBHOOK,),
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        Setting(
            "dataPlaneSecretFile",
            "File with the bearer secret that broker process and daemon show each other.",
            used_with=(OWN_BROKER,),
        ),
    ] = None
    request_timeout_ms: Annotated[
        int,
        Setting(
            "dataPlaneRequestTimeoutMillis",
            "Deadline of a request to the broker process.",
            at_least=1,
            used_with=(WEBHOOK,),
        ),
    ] = 5000
    failure_timeout_ms: Annotated[
        int,
        Setting(
            "dataPlaneFailureTimeoutMillis",
            "Silence of the broker process after which this broker gives its bundles up.",
            at_least=1,
            used_with=(OWN_BROKER,),
        ),
    ] = 10_000
    simulated_workload: Annotated[
        str,
        Setting(
            "simulatedWorkload",
            "What dataPlane=simulated plays: skewed, steady or quiet, a scenario of the simulator, "
            "or a trace file, of topics or of bundles; empty: no traffic.",
            used_with=(SIMULATED,),
        ),
    ] = ""
    simulated_act_log: Annotated[
        Path | None,
        Setting(
            "simulatedActLog",
            "File to which dataPlane=simulated writes each of its acts.",
            used_with=(SIMULATED,),
        ),
    ] = None
    simulated_log_directory: Annotated[
        Path | None,
        Setting(
            "simulatedLogDirectory",
            "Directory in which dataPlane=simulated keeps the logs of its replicas; empty: in "
            "memory, where they end with the daemon.",
            used_with=(SIMULATED, given("brokerId")),
        ),
    ] = None
    simulated_seed: Annotated[
        int,
        Setting(
            "simulatedSeed",
            "Seed of the draws of dataPlane=simulated; 0: the scenario's own.",
            used_with=(SIMULATED, given("simulatedWorkload")),
        ),
    ] = 0
    simulated_brokers: Annotated[
        int,
        Setting(
            "simulatedBrokers",
            "How many brokers share the scenario, or the trace of bundles: its traffic fills them.",
            at_least=1,
            used_with=(SIMULATED, given("simulatedWorkload")),
        ),
    ] = 10
    simulated_start_s: Annotated[
        float | None,
        Setting(
            "simulatedStartSeconds",
            "Start of the workload on CLOCK_BOOTTIME, to share it; empty: when the daemon starts.",
            used_with=(SIMULATED,),
        ),
    ] = None
    simulated_minute_s: Annotated[
        float,
        Setting(
            "simulatedMinuteSeconds",
            "How long a minute of the workload lasts; below 60 it goes by faster.",
            at_least=0.01,
            used_with=(SIMULATED,),
        ),
    ] = 60.0
    simulated_max_msg_per_s: Annotated[
        float | None,
        Setting(
            "simulatedMaxMsgRate",
            "Messages in and out that fill the broker; empty: as many as in the scenario, or "
            "50,000.",
            above=0,
            used_with=(SIMULATED,),
        ),
    ] = None
    simulated_max_throughput_bytes: Annotated[
        float | None,
        Setting(
            "simulatedMaxBytesPerSecond",
            "Bytes/s in and out that fill the broker; empty: as many as in the scenario, or "
            "50,000,000.",
            above=0,
            used_with=(SIMULATED,),
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
