"""The leader's cycle as a whole, its budgets, and slow brokers (docs: cruise-control)."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.core.rules.leader_rules import SimpleStrategy
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS
from broker_ctl.settings.conditions import (
    BALANCED,
    BALANCING,
    DETECTING,
    OWN_BROKER,
    SIMPLE,
    either,
    where,
)
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import InSeconds

# The leader's cycle as a whole, and its budgets.


@dataclass(frozen=True, slots=True)
class BalancingSettings:
    """Balancing: the leader's cycle and its budgets."""

    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerEnabled",
            "Whether the leader sheds, splits and merges bundles. Load reports and placement "
            "continue when it is false.",
            used_with=(BALANCED,),
        ),
    ] = True
    load_manager: Annotated[
        str,
        Setting(
            "loadManagerClassName",
            "Load manager: ModularLoadManagerImpl with the strategies below, "
            "SimpleLoadManagerImpl with its own rules, or NoopLoadManager for a single broker. "
            "Pulsar's class name is accepted with or without its package.",
            catalog=LOAD_MANAGERS,
        ),
    ] = "ModularLoadManagerImpl"
    allowed_plugins: Annotated[
        tuple[str, ...],
        Setting(
            "allowedPlugins",
            "Strategies of other packages that the daemon may load, by the names of their entry "
            "points. Empty: those that its own configuration names at the start. A dynamic "
            "override never loads another one.",
        ),
    ] = ()
    simple_strategy: Annotated[
        SimpleStrategy,
        Setting(
            "loadBalancerPlacementStrategy",
            "Placement strategy of SimpleLoadManagerImpl.",
            used_with=(SIMPLE,),
        ),
    ] = SimpleStrategy.LEAST_LOADED
    comfort_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerComfortLoadLevelPercentage",
            "SimpleLoadManagerImpl: maximum usage of a broker that receives shed bundles.",
            at_most=100,
            used_with=(SIMPLE,),
        ),
    ] = 65
    underloaded_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerUnderloadedThresholdPercentage",
            "SimpleLoadManagerImpl: usage above which a broker without bundles is preferred as "
            "the receiver.",
            at_most=100,
            used_with=(SIMPLE,),
        ),
    ] = 50
    dry_run: Annotated[
        bool,
        Setting(
            "dryRun",
            "Whether the leader only plans and records decisions, without moving, splitting or "
            "merging bundles.",
            is_dynamic=True,
            used_with=(BALANCED, either(OWN_BROKER, where("pulsarAct", "true"))),
        ),
    ] = False
    max_moves_in_flight_per_broker: Annotated[
        int,
        Setting(
            "loadBalancerMaxMovesInFlightPerBroker",
            "Maximum number of concurrent bundle moves from or to one broker.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 2
    max_moves_in_flight: Annotated[
        int,
        Setting(
            "loadBalancerMaxMovesInFlight",
            "Maximum number of concurrent bundle moves in the cluster.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 8
    max_load_moved_per_hour_percent: Annotated[
        int,
        Setting(
            "loadBalancerMaxLoadMovedPerHourPercentage",
            "Maximum share of the cluster's throughput that may be moved within one hour.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 100
    quota_interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerResourceQuotaUpdateIntervalMinutes",
            "Interval at which the leader writes the load averages of bundles and brokers to "
            "the metadata store.",
            at_least=0.001,
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 15.0

    max_lost_percent: Annotated[
        int,
        Setting(
            "loadBalancerMaxLostBrokersPercentage",
            "Share of the brokers that may be lost without being stopped or drained, before the "
            "leader pauses the balancing until they are back or an operator resumes it. At least "
            "two have to be lost. 0: no limit.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 30
    lost_window_s: Annotated[
        int,
        Setting(
            "loadBalancerLostBrokersWindowSeconds",
            "Time within which that share has to be lost.",
            at_least=1,
            at_most=86_400,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 300
    lost_bundles_per_s: Annotated[
        int,
        Setting(
            "loadBalancerMaxPlacementsPerSecondOfLostBrokers",
            "Maximum rate at which the leader places the bundles of lost brokers while the "
            "balancing is paused for them. Lookups place bundles without this limit.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED, OWN_BROKER),
        ),
    ] = 500
    quota_interval_s = InSeconds("quota_interval_minutes")


# Detection of slow brokers by strategy balance (docs: cruise-control).


@dataclass(frozen=True, slots=True)
class SlowBrokerSettings:
    """Slow brokers: how strategy balance detects and demotes them."""

    detection_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSlowBrokerDetectionEnabled",
            "Whether a broker on which a byte costs far more than on its peers receives no "
            "bundles.",
            is_dynamic=True,
            used_with=BALANCING,
        ),
    ] = True
    removal_enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSlowBrokerRemovalEnabled",
            "Whether a broker that has been slow for a long time is drained.",
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = False
    peers_multiple: Annotated[
        float,
        Setting(
            "loadBalancerSlowBrokerPeersMultiple",
            "Multiple of the peers' median cost of a byte from which a broker counts as slow.",
            above=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 3.0
    history_multiple: Annotated[
        float,
        Setting(
            "loadBalancerSlowBrokerHistoryMultiple",
            "Multiple of the 90th percentile of a broker's own past cost of a byte from which "
            "it counts as slow.",
            above=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 3.0
    min_throughput_kib_per_s: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMinThroughputKbytes",
            "Throughput below which a broker is not checked.",
            at_least=0,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 1024
    min_usage_percent: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMinUsagePercentage",
            "Usage below which a broker is not checked.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 20
    demotion_score: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerDemotionScore",
            "Score (slow cycles minus other cycles) from which a broker receives no bundles.",
            at_least=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 5
    removal_score: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerRemovalScore",
            "Score (slow cycles minus other cycles) from which a broker is drained if removal "
            "is enabled.",
            at_least=1,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 50
    max_percent: Annotated[
        int,
        Setting(
            "loadBalancerSlowBrokerMaxPercentage",
            "Maximum share of brokers (at least one) that may be demoted as slow at the same "
            "time; any further ones are only reported.",
            at_least=0,
            at_most=100,
            is_dynamic=True,
            used_with=DETECTING,
        ),
    ] = 10
