"""The leader's cycle as a whole, and its budgets."""

from dataclasses import dataclass
from typing import Annotated

from broker_ctl.core.rules.simple import SimpleStrategy
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS
from broker_ctl.settings.conditions import BALANCED, OWN_BROKER, SIMPLE, either, where
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class BalancingSettings:
    """Balancing: the leader's cycle and its budgets."""

    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerEnabled",
            "Shed, split and merge bundles when leading. Load is reported and bundles are placed "
            "all the same.",
            used_with=(BALANCED,),
        ),
    ] = True
    load_manager: Annotated[
        str,
        Setting(
            "loadManagerClassName",
            "Whose rules and reports: ModularLoadManagerImpl with the strategies below, "
            "SimpleLoadManagerImpl with its own, NoopLoadManager for a broker that is alone; "
            "Pulsar's class name may stand with its package.",
            catalog=LOAD_MANAGERS,
        ),
    ] = "ModularLoadManagerImpl"
    simple_strategy: Annotated[
        SimpleStrategy,
        Setting(
            "loadBalancerPlacementStrategy",
            "How SimpleLoadManagerImpl places.",
            used_with=(SIMPLE,),
        ),
    ] = SimpleStrategy.LEAST_LOADED
    comfort_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerComfortLoadLevelPercentage",
            "Usage below which a broker may receive what SimpleLoadManagerImpl sheds.",
            at_most=100,
            used_with=(SIMPLE,),
        ),
    ] = 65
    underloaded_threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerUnderloadedThresholdPercentage",
            "Usage above which SimpleLoadManagerImpl prefers a broker that owns nothing.",
            at_most=100,
            used_with=(SIMPLE,),
        ),
    ] = 50
    dry_run: Annotated[
        bool,
        Setting(
            "dryRun",
            "Decide and record, but move and split nothing.",
            is_dynamic=True,
            used_with=(BALANCED, either(OWN_BROKER, where("pulsarAct", "true"))),
        ),
    ] = False
    max_moves_in_flight_per_broker: Annotated[
        int,
        Setting(
            "loadBalancerMaxMovesInFlightPerBroker",
            "Bundles on their way from or to one broker at a time.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 2
    max_moves_in_flight: Annotated[
        int,
        Setting(
            "loadBalancerMaxMovesInFlight",
            "Bundles on their way in the cluster at a time.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 8
    max_load_moved_per_hour_percent: Annotated[
        int,
        Setting(
            "loadBalancerMaxLoadMovedPerHourPercentage",
            "Share of the cluster's throughput that may be moved in an hour.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 100
    quota_interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerResourceQuotaUpdateIntervalMinutes",
            "How often the leader writes the averages of bundles and brokers.",
            at_least=0.001,
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 15.0

    @property
    def quota_interval_s(self) -> float:
        """In seconds."""
        return self.quota_interval_minutes * 60
