"""Shedding of bundles from overloaded brokers (docs: pulsar-leader-tasks, pulsar-shedders)."""

from dataclasses import dataclass
from typing import Annotated, Final

from broker_ctl.core.model.names import Namespace
from broker_ctl.core.strategies.catalog import SHEDDING
from broker_ctl.settings.conditions import BALANCED, ENABLED, MODULAR, SHEDDING_ENABLED, shedders
from broker_ctl.settings.durations import InSeconds
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.strategies import SHEDDING_STRATEGIES
from broker_ctl.settings.values import one_of

_STRATEGIES: Final = one_of([*SHEDDING.entries, "an entry point of broker_ctl.shedding"])

# Keys that strategy balance reads in place of those of Pulsar's shedders.
_HIGH: Final = "loadBalancerPlannerHighPercentage"
_LOW: Final = "loadBalancerPlannerLowPercentage"
_STEADY: Final = "loadBalancerPlannerSteadySeconds"
_RECENT: Final = "loadBalancerPlannerRecentSeconds"
_CHURN: Final = "loadBalancerPlannerChurnPercentagePerHour"


@dataclass(frozen=True, slots=True)
class SheddingSettings:
    """Shedding: when brokers shed bundles, and how much."""

    enabled: Annotated[
        bool,
        Setting(
            "loadBalancerSheddingEnabled",
            "Whether the leader sheds bundles.",
            is_dynamic=True,
            used_with=ENABLED,
        ),
    ] = True
    strategies: Annotated[
        tuple[str, ...],
        Setting(
            "loadBalancerLoadSheddingStrategy",
            "Shedding strategies; the first one that finds something to shed decides the "
            "cycle. Pulsar's class names are accepted with or without their package.",
            allowed=_STRATEGIES,
            catalog=SHEDDING_STRATEGIES,
            is_dynamic=True,
            used_with=(*ENABLED, MODULAR),
        ),
    ] = ("balance",)
    interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSheddingIntervalMinutes",
            "Pause between the end of one shedding cycle and the start of the next.",
            at_least=0.001,
            is_dynamic=True,
            used_with=SHEDDING_ENABLED,
        ),
    ] = 1.0
    grace_period_minutes: Annotated[
        float,
        Setting(
            "loadBalancerSheddingGracePeriodMinutes",
            "Time for which a bundle that was shed is not shed again.",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 30.0
    threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerBrokerThresholdShedderPercentage",
            "ThresholdShedder: percentage points above the mean usage at which a broker sheds.",
            at_most=100,
            is_dynamic=True,
            used_with=shedders("ThresholdShedder"),
            instead=(_HIGH, _LOW),
        ),
    ] = 10
    history_ratio: Annotated[
        float,
        Setting(
            "loadBalancerHistoryResourcePercentage",
            "ThresholdShedder, TransferShedder: weight of the previous value in the moving "
            "average of a broker's usage.",
            at_least=0,
            below=1,
            is_dynamic=True,
            used_with=shedders("ThresholdShedder", "TransferShedder"),
            instead=(_STEADY, _RECENT),
        ),
    ] = 0.9
    min_throughput_mib_per_s: Annotated[
        float,
        Setting(
            "loadBalancerBundleUnloadMinThroughputThreshold",
            "ThresholdShedder: excess throughput below which a broker sheds nothing.",
            is_dynamic=True,
            used_with=shedders("ThresholdShedder"),
            instead=(_CHURN,),
        ),
    ] = 10.0
    lower_boundary_enabled: Annotated[
        bool,
        Setting(
            "lowerBoundarySheddingEnabled",
            "ThresholdShedder: whether the most loaded broker also sheds when another is far "
            "below the mean usage.",
            is_dynamic=True,
            used_with=shedders("ThresholdShedder"),
            instead=(_LOW,),
        ),
    ] = False
    excluded_namespaces: Annotated[
        tuple[Namespace, ...],
        Setting(
            "loadBalancerSheddingExcludedNamespaces",
            "Namespaces whose bundles are never shed.",
            allowed="tenant/namespace",
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = ()

    interval_s = InSeconds("interval_minutes")
    grace_period_s = InSeconds("grace_period_minutes")

    @property
    def threshold_ratio(self) -> float:
        """As a fraction of full usage."""
        return self.threshold_percent / 100

    @property
    def min_throughput_bytes_per_s(self) -> float:
        """In bytes per second."""
        return self.min_throughput_mib_per_s * 1024 * 1024
