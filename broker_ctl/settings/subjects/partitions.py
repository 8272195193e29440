"""Replicated partitions, under Kafka's keys where the meaning is the same."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from broker_ctl.settings.conditions import REPLICATING, where
from broker_ctl.settings.schema import Setting


class StateChangeTransport(StrEnum):
    """How what the controller decides reaches the brokers (docs: kafka-design-v3)."""

    HTTP = "http"
    ZKQUEUE = "zkqueue"


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """Replicated partitions: where brokerId is set."""

    transport: Annotated[
        StateChangeTransport,
        Setting(
            "stateChangeTransport",
            "How the controller that this broker may become instructs brokers. http: it calls "
            "their daemons; zkqueue: it leaves nodes in ZooKeeper. A broker obeys both.",
            used_with=REPLICATING,
        ),
    ] = StateChangeTransport.HTTP
    lag_time_max_ms: Annotated[
        int,
        Setting(
            "replicaLagTimeMaxMillis",
            "How long a follower may not have caught up until its leader takes it out of the "
            "ISR; the broker process is told.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 30_000
    min_in_sync: Annotated[
        int,
        Setting(
            "minInSyncReplicas",
            "Replicas in sync without which a leader takes no record that is to be committed, "
            "where the topic does not say.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 1
    is_unclean_allowed: Annotated[
        bool,
        Setting(
            "uncleanLeaderElectionEnable",
            "Let a replica lead that was not in sync where no other lives, which loses records; "
            "for topics that do not say.",
            used_with=REPLICATING,
        ),
    ] = False
    auto_rebalance_enabled: Annotated[
        bool,
        Setting(
            "autoLeaderRebalanceEnabled",
            "Let the controller give leaderships back to preferred replicas.",
            used_with=REPLICATING,
        ),
    ] = True
    imbalance_percent: Annotated[
        int,
        Setting(
            "leaderImbalancePerBrokerPercentage",
            "Share of the partitions that prefer a broker and are led elsewhere above which "
            "they are given back.",
            at_most=100,
            used_with=(*REPLICATING, where("autoLeaderRebalanceEnabled", "true")),
        ),
    ] = 10
    imbalance_check_interval_s: Annotated[
        int,
        Setting(
            "leaderImbalanceCheckIntervalSeconds",
            "How often the controller looks for them.",
            at_least=1,
            used_with=(*REPLICATING, where("autoLeaderRebalanceEnabled", "true")),
        ),
    ] = 300
    acknowledge_timeout_ms: Annotated[
        int,
        Setting(
            "replicaAcknowledgeTimeoutMillis",
            "How long a live broker may leave an instruction unanswered until its replicas count "
            "as offline.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 10_000
    max_queued_instructions: Annotated[
        int,
        Setting(
            "zkQueueMaxInstructions",
            "Instructions that may wait for one broker in ZooKeeper; more become one that says "
            "everything.",
            at_least=1,
            used_with=(*REPLICATING, where("stateChangeTransport", "zkqueue")),
        ),
    ] = 100
    poll_ms: Annotated[
        int,
        Setting(
            "replicaPollMillis",
            "How often the data plane is asked which ISRs its leaders would change.",
            at_least=1,
            used_with=REPLICATING,
        ),
    ] = 500
    controlled_shutdown_enabled: Annotated[
        bool,
        Setting(
            "controlledShutdownEnabled",
            "Have the controller move all leaderships away before this daemon stops.",
            used_with=REPLICATING,
        ),
    ] = True
    controlled_shutdown_max_retries: Annotated[
        int,
        Setting(
            "controlledShutdownMaxRetries",
            "How often it is asked again while some are left; then the daemon stops all the same.",
            used_with=(*REPLICATING, where("controlledShutdownEnabled", "true")),
        ),
    ] = 3
    controlled_shutdown_backoff_ms: Annotated[
        int,
        Setting(
            "controlledShutdownRetryBackoffMs",
            "Pause before it is asked again; it doubles each time.",
            at_least=1,
            used_with=(*REPLICATING, where("controlledShutdownEnabled", "true")),
        ),
    ] = 1000

    @property
    def lag_time_max_s(self) -> float:
        """In seconds."""
        return self.lag_time_max_ms / 1000

    @property
    def acknowledge_timeout_s(self) -> float:
        """In seconds."""
        return self.acknowledge_timeout_ms / 1000

    @property
    def poll_s(self) -> float:
        """In seconds."""
        return self.poll_ms / 1000

    @property
    def controlled_shutdown_backoff_s(self) -> float:
        """In seconds."""
        return self.controlled_shutdown_backoff_ms / 1000
