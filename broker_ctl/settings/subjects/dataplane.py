"""The data plane, which serves the messages."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.addresses import HttpUrl
from broker_ctl.settings.conditions import (
    OWN_BROKER,
    SIMULATED,
    SIMULATED_REPLICAS,
    WEBHOOK,
    given,
)
from broker_ctl.settings.schema import Guard, Setting
from broker_ctl.settings.values import InSeconds


class DataPlaneKind(StrEnum):
    """The kind of data plane of this daemon."""

    SIMULATED = "simulated"
    WEBHOOK = "webhook"
    PULSAR = "pulsar"


@dataclass(frozen=True, slots=True)
class DataPlaneSettings:
    """Data plane: the process that serves the messages."""

    kind: Annotated[
        DataPlaneKind,
        Setting(
            "dataPlane",
            "Data plane: simulated (a generated workload), webhook (a broker process called "
            "over HTTP) or pulsar (a cluster of Pulsar brokers, balanced from outside).",
        ),
    ] = DataPlaneKind.SIMULATED
    url: Annotated[
        HttpUrl | None,
        Setting(
            "dataPlaneUrl",
            "Base URL of the broker process of dataPlane=webhook.",
            allowed="http://host:port/path",
            used_with=(WEBHOOK,),
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        Setting(
            "dataPlaneSecretFile",
            "File with the bearer secret with which the broker process and the daemon "
            "authenticate each other.",
            used_with=(OWN_BROKER,),
            guard=Guard.SECRET,
        ),
    ] = None
    request_timeout_ms: Annotated[
        int,
        Setting(
            "dataPlaneRequestTimeoutMillis",
            "Timeout of one request to the broker process.",
            at_least=1,
            used_with=(WEBHOOK,),
        ),
    ] = 5000
    failure_timeout_ms: Annotated[
        int,
        Setting(
            "dataPlaneFailureTimeoutMillis",
            "Time without an answer of the broker process after which this broker releases its "
            "bundles.",
            at_least=1,
            used_with=(OWN_BROKER,),
        ),
    ] = 10_000
    simulated_workload: Annotated[
        str,
        Setting(
            "simulatedWorkload",
            "Workload of dataPlane=simulated: skewed, steady or quiet, a scenario of the "
            "simulator, or a trace file of topics or of bundles; empty: no traffic. A topic has "
            "traffic while its bundle has an owner, which its first lookup gives it; those of the "
            "three words are of the namespace public/default, as persistent://public/default/topic-100.",
            used_with=(SIMULATED,),
        ),
    ] = ""
    simulated_act_log: Annotated[
        Path | None,
        Setting(
            "simulatedActLog",
            "File to which dataPlane=simulated writes every load, unload and served request.",
            used_with=(SIMULATED,),
        ),
    ] = None
    simulated_log_directory: Annotated[
        Path | None,
        Setting(
            "simulatedLogDirectory",
            "Directory of the replica logs of dataPlane=simulated; empty: in memory, lost when "
            "the daemon stops.",
            used_with=(SIMULATED_REPLICAS,),
        ),
    ] = None
    simulated_replication_tls_enabled: Annotated[
        bool,
        Setting(
            "simulatedReplicationTlsEnabled",
            "Whether followers and clients of the replicas of dataPlane=simulated connect over TLS "
            "with a certificate of tlsTrustCertsFilePath. A broker's certificate names "
            "spiffe://CLUSTER/replica-broker/ID, with the clusterName and its brokerId. Required "
            "off loopback.",
            used_with=(SIMULATED_REPLICAS,),
        ),
    ] = False
    simulated_seed: Annotated[
        int,
        Setting(
            "simulatedSeed",
            "Seed of the random generator of dataPlane=simulated; 0: the seed of the scenario.",
            used_with=(SIMULATED, given("simulatedWorkload")),
        ),
    ] = 0
    simulated_brokers: Annotated[
        int,
        Setting(
            "simulatedBrokers",
            "Number of brokers that share the scenario, or the trace of bundles; scales the "
            "capacity of each.",
            at_least=1,
            used_with=(SIMULATED, given("simulatedWorkload")),
        ),
    ] = 10
    simulated_start_s: Annotated[
        float | None,
        Setting(
            "simulatedStartSeconds",
            "CLOCK_BOOTTIME at which the workload starts, so that several daemons play the "
            "same minute; empty: start of the daemon.",
            used_with=(SIMULATED,),
        ),
    ] = None
    simulated_minute_s: Annotated[
        float,
        Setting(
            "simulatedMinuteSeconds",
            "Real time that one minute of the workload lasts; below 60 the workload runs faster.",
            at_least=0.01,
            used_with=(SIMULATED,),
        ),
    ] = 60.0
    simulated_max_msg_per_s: Annotated[
        float | None,
        Setting(
            "simulatedMaxMsgRate",
            "Message rate, in and out, at which a simulated broker is fully used; empty: the "
            "rate of the scenario, or 50,000.",
            above=0,
            used_with=(SIMULATED,),
        ),
    ] = None
    simulated_max_bytes_per_s: Annotated[
        float | None,
        Setting(
            "simulatedMaxBytesPerSecond",
            "Throughput, in and out, at which a simulated broker is fully used; empty: the "
            "throughput of the scenario, or 50,000,000.",
            above=0,
            used_with=(SIMULATED,),
        ),
    ] = None

    request_timeout_s = InSeconds("request_timeout_ms")
    failure_timeout_s = InSeconds("failure_timeout_ms")
