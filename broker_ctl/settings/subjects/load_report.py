"""Load reports of this broker (docs: pulsar-report-rules)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from broker_ctl.core.model.load import UsageWeights
from broker_ctl.settings.conditions import BALANCED, OWN_BROKER
from broker_ctl.settings.schema import Setting
from broker_ctl.settings.values import InSeconds


class HostUsageSource(StrEnum):
    """Whose resource usage counts as the broker's."""

    DATAPLANE = "dataplane"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class LoadReportSettings:
    """Load report: its contents, and when it is published."""

    threshold_percent: Annotated[
        int,
        Setting(
            "loadBalancerReportUpdateThresholdPercentage",
            "Change of usage or traffic that triggers a load report; a bundle that was acquired or "
            "released always does.",
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 10
    min_interval_ms: Annotated[
        int,
        Setting(
            "loadBalancerReportUpdateMinIntervalMillis",
            "Interval at which the daemon checks whether a load report is due.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 5000
    max_interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerReportUpdateMaxIntervalMinutes",
            "Maximum time between two load reports. Beside a Pulsar cluster nothing moves when its "
            "brokers have not reported for twice as long.",
            at_least=0.001,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 15.0
    average_sample_s: Annotated[
        float,
        Setting(
            "loadBalancerAverageSampleSeconds",
            "Time that counts as one sample of the load averages; a report is weighted by the "
            "time since the previous one. 0: every report is one sample, as in Pulsar.",
            at_least=0,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 0.0
    ttl_s: Annotated[
        int,
        Setting(
            "loadBalancerBrokerLoadDataTTLInSeconds",
            "Age at which a load report is ignored.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 1800
    host_usage_interval_minutes: Annotated[
        float,
        Setting(
            "loadBalancerHostUsageCheckIntervalMinutes",
            "Interval at which resource usage is measured.",
            at_least=0.001,
            is_dynamic=True,
            used_with=(OWN_BROKER, BALANCED),
        ),
    ] = 1.0
    stats_interval_s: Annotated[
        int,
        Setting(
            "statsUpdateFrequencyInSecs",
            "Interval at which bundle traffic is read from the data plane.",
            at_least=1,
            is_dynamic=True,
            used_with=(BALANCED,),
        ),
    ] = 60
    is_exposing_bundles: Annotated[
        bool,
        Setting(
            "exposeBundlesMetricsInPrometheus",
            "Whether /metrics has the traffic of each bundle; seven series per bundle.",
            is_dynamic=True,
            used_with=(OWN_BROKER,),
        ),
    ] = False
    host_usage_source: Annotated[
        HostUsageSource,
        Setting(
            "hostUsageSource",
            "Source of resource usage: dataplane (the data plane; this machine if the data "
            "plane reports none) or host (this machine).",
            used_with=(OWN_BROKER,),
        ),
    ] = HostUsageSource.DATAPLANE
    nic_speed_gbps: Annotated[
        float | None,
        Setting(
            "loadBalancerOverrideBrokerNicSpeedGbps",
            "Speed of each network interface, used in place of the speed that the system reports.",
            above=0,
            used_with=(OWN_BROKER,),
        ),
    ] = None
    nics: Annotated[
        tuple[str, ...],
        Setting(
            "loadBalancerOverrideBrokerNics",
            "Network interfaces whose traffic is measured; empty: all physical interfaces.",
            matches=r"[\w.:@-]+",
            allowed="the name of an interface",
            used_with=(OWN_BROKER,),
        ),
    ] = ()
    cpu_weight: Annotated[
        float,
        Setting(
            "loadBalancerCPUResourceWeight",
            "Weight of CPU in the usage of a broker.",
            is_dynamic=True,
        ),
    ] = 1.0
    memory_weight: Annotated[
        float,
        Setting(
            "loadBalancerMemoryResourceWeight",
            "Weight of memory in the usage of a broker.",
            is_dynamic=True,
        ),
    ] = 0.0
    direct_memory_weight: Annotated[
        float,
        Setting(
            "loadBalancerDirectMemoryResourceWeight",
            "Weight of direct memory in the usage of a broker.",
            is_dynamic=True,
        ),
    ] = 0.0
    bandwidth_in_weight: Annotated[
        float,
        Setting(
            "loadBalancerBandwidthInResourceWeight",
            "Weight of incoming bandwidth in the usage of a broker.",
            is_dynamic=True,
        ),
    ] = 1.0
    bandwidth_out_weight: Annotated[
        float,
        Setting(
            "loadBalancerBandwidthOutResourceWeight",
            "Weight of outgoing bandwidth in the usage of a broker.",
            is_dynamic=True,
        ),
    ] = 1.0

    @property
    def weights(self) -> UsageWeights:
        """The weights of the resources."""
        return UsageWeights(
            self.cpu_weight,
            self.memory_weight,
            self.direct_memory_weight,
            self.bandwidth_in_weight,
            self.bandwidth_out_weight,
        )

    min_interval_s = InSeconds("min_interval_ms")
    max_interval_s = InSeconds("max_interval_minutes")
    host_usage_interval_s = InSeconds("host_usage_interval_minutes")
