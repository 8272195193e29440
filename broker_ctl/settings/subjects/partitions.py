"""Replicated partitions; keys are Kafka's if the meaning is the same."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from broker_ctl.settings.conditions import REPLICATING, where
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import InSeconds


class StateChangeTransport(StrEnum):
    """Transport of the controller's instructions to brokers (docs: kafka-design-v3)."""

    HTTP = "http"
    ZKQUEUE = "zkqueue"


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """Replicated partitions: used if brokerId is set."""

    transport: Annotated[
        StateChangeTransport,
        Setting(
            "stateChangeTransport",
            "Transport of the partition controller's instructions to brokers: http (requests "
            "to their daemons) or zkqueue (nodes in ZooKeeper). It applies while this broker "
            "is the controller; every broker accepts both.",
            used_with=REPLICATING,
        ),
    ] = StateChangeTransport.HTTP
    lag_time_max_ms: Annotated[
        int,
        Setting(
            "replicaLagTimeMaxMillis",
            "How long a follower may lag before the leader removes it from the ISR.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 30_000
    min_in_sync: Annotated[
        int,
        Setting(
            "minInSyncReplicas",
            "Minimum number of in-sync replicas for a leader to accept records with acks=all; "
            "a topic's own value wins.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 1
    is_unclean_allowed: Annotated[
        bool,
        Setting(
            "uncleanLeaderElectionEnable",
            "Whether a replica outside the ISR may become leader when no in-sync replica is "
            "alive, which loses records; a topic's own value wins.",
            used_with=REPLICATING,
        ),
    ] = False
    auto_rebalance_enabled: Annotated[
        bool,
        Setting(
            "autoLeaderRebalanceEnabled",
            "Whether the controller moves leadership back to preferred replicas.",
            used_with=REPLICATING,
        ),
    ] = True
    imbalance_percent: Annotated[
        int,
        Setting(
            "leaderImbalancePerBrokerPercentage",
            "Leadership moves back to preferred replicas once more than this share of a "
            "broker's preferred partitions is led elsewhere.",
            at_most=100,
            used_with=(*REPLICATING, where("autoLeaderRebalanceEnabled", "true")),
        ),
    ] = 10
    imbalance_check_interval_s: Annotated[
        int,
        Setting(
            "leaderImbalanceCheckIntervalSeconds",
            "Interval at which the controller checks the leader imbalance.",
            at_least=1,
            used_with=(*REPLICATING, where("autoLeaderRebalanceEnabled", "true")),
        ),
    ] = 300
    acknowledge_timeout_ms: Annotated[
        int,
        Setting(
            "replicaAcknowledgeTimeoutMillis",
            "Time within which a live broker must acknowledge an instruction; afterwards its "
            "replicas count as offline.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 10_000
    max_queued_instructions: Annotated[
        int,
        Setting(
            "zkQueueMaxInstructions",
            "Maximum number of instructions queued for one broker in ZooKeeper; a longer queue "
            "is replaced by one full instruction.",
            at_least=1,
            used_with=(*REPLICATING, where("stateChangeTransport", "zkqueue")),
        ),
    ] = 100
    poll_ms: Annotated[
        int,
        Setting(
            "replicaPollMillis",
            "Interval at which the data plane is polled for ISR changes of the partitions that "
            "it leads.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 500
    controlled_shutdown_enabled: Annotated[
        bool,
        Setting(
            "controlledShutdownEnabled",
            "Whether a stopping daemon first has the controller move all its partition "
            "leaderships away.",
            used_with=REPLICATING,
        ),
    ] = True
    controlled_shutdown_max_retries: Annotated[
        int,
        Setting(
            "controlledShutdownMaxRetries",
            "Number of retries of a controlled shutdown while leaderships remain; afterwards "
            "the daemon stops anyway.",
            used_with=(*REPLICATING, where("controlledShutdownEnabled", "true")),
        ),
    ] = 3
    controlled_shutdown_backoff_ms: Annotated[
        int,
        Setting(
            "controlledShutdownRetryBackoffMs",
            "Pause before the first retry of a controlled shutdown; it doubles with each retry.",
            at_least=1,
            used_with=(*REPLICATING, where("controlledShutdownEnabled", "true")),
        ),
    ] = 1000

    lag_time_max_s = InSeconds("lag_time_max_ms")
    acknowledge_timeout_s = InSeconds("acknowledge_timeout_ms")
    poll_s = InSeconds("poll_ms")
    controlled_shutdown_backoff_s = InSeconds("controlled_shutdown_backoff_ms")
