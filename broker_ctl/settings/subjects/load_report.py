"""What a broker says of its load, and when (docs: pulsar-report-rules)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from broker_ctl.core.model.load import UsageWeights
from broker_ctl.settings.conditions import BALANCED, OWN_BROKER
from broker_ctl.settings.schema import Setting


class HostUsageSource(StrEnum):
    """Whose usage counts as the broker's."""

    DATAPLANE = "dataplane"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class LoadReportSettings:
    """Load report: what a broker says of its load, and when."""

    threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerReportUpdateThresholdPercentage",
            "Change of usage, traffic or number of bundles that is worth a report.",
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 10
    min_interval_ms: Annotated[
        int,
        Setting(
            "loadBalancerReportUpdateMinIntervalMillis",
            "How often it is judged whether a report is due.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 5000
    max_interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerReportUpdateMaxIntervalMinutes",
            "A report is written at least this often.",
            at_least=0.001,
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 15.0
    average_sample_s: Annotated[
        float,
        Setting(
            "loadBalancerAverageSampleSeconds",
            "0: each report is one sample of the averages, as in Pulsar; else each counts for the "
            "time since the one before, a sample for so long.",
            at_least=0,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 0.0
    ttl_s: Annotated[
        int,
        Setting(
            "loadBalancerBrokerLoadDataTTLInSeconds",
            "Age at which a report says nothing any more.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 1800
    host_usage_interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerHostUsageCheckIntervalMinutes",
            "How often the usage is measured.",
            at_least=0.001,
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 1.0
    stats_interval_s: Annotated[
        int,
        Setting(
            "statsUpdateFrequencyInSecs",
            "How often the traffic of the bundles is taken from the data plane.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 60
    is_exposing_bundles: Annotated[
        bool,
        Setting(
            "exposeBundlesMetricsInPrometheus",
            "Whether /metrics shows the traffic of each bundle: seven series for each.",
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = False
    host_usage_source: Annotated[
        HostUsageSource,
        Setting(
            "hostUsageSource",
            "dataplane: ask the data plane, and this machine where it has no answer; host: this "
            "machine.",
            used_with=(OWN_BROKER,),
        ),
    ] = HostUsageSource.DATAPLANE
    nic_speed_gbps: Annotated[
        float | None,
        Setting(
            "loadBalancerOverrideBrokerNicSpeedGbps",
            "Speed of each network interface where the system tells a wrong one.",
            above=0,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    nics: Annotated[
        tuple[str, ...],
        Setting(
            "loadBalancerOverrideBrokerNics",
            "Network interfaces that count; empty: all physical ones.",
            matches=r"[\w.:@-]+",
            allowed="the name of an interface",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    cpu_weight: Annotated[
        float,
        Setting(
            "loadBalancerCPUResourceWeight", "Weight of the CPU in the usage.", is_dynamic=True
        ),
    ] = 1.0
    memory_weight: Annotated[
        float,
        Setting(
            "loadBalancerMemoryResourceWeight", "Weight of memory in the usage.", is_dynamic=True
        ),
    ] = 0.0
    direct_memory_weight: Annotated[
        float,
        Setting(
            "loadBalancerDirectMemoryResourceWeight",
            "Weight of direct memory in the usage.",
            is_dynamic=True,
        ),
    ] = 0.0
    bandwidth_in_weight: Annotated[
        float,
        Setting(
            "loadBalancerBandwidthInResourceWeight",
            "Weight of incoming bandwidth in the usage.",
            is_dynamic=True,
        ),
    ] = 1.0
    bandwidth_out_weight: Annotated[
        float,
        Setting(
            "loadBalancerBandwidthOutResourceWeight",
            "Weight of outgoing bandwidth in the usage.",
            is_dynamic=True,
        ),
    ] = 1.0

    @property
    def weights(self) -> UsageWeights:
        """The weight of each resource."""
        return UsageWeights(
            self.cpu_weight,
            self.memory_weight,
            self.direct_memory_weight,
            self.bandwidth_in_weight,
            self.bandwidth_out_weight,
        )

    @property
    def min_interval_s(self) -> float:
        """In seconds."""
        return self.min_interval_ms / 1000

    @property
    def max_interval_s(self) -> float:
        """In seconds."""
        return self.max_interval_minutes * 60

    @property
    def host_usage_interval_s(self) -> float:
        """In seconds."""
        return self.host_usage_interval_minutes * 60
