"""What the load reporter takes from the settings."""

from broker_ctl.clock import Clock
from broker_ctl.dataplane.interface import DataPlane
from broker_ctl.managers.host_usage import HostSampler, HostUsage
from broker_ctl.managers.report_rules import ReportRules
from broker_ctl.managers.usage_source import DataPlaneUsage, UsageSource
from broker_ctl.settings.load_report import HostUsageSource
from broker_ctl.settings.root import Settings


def report_rules(settings: Settings) -> ReportRules:
    """When a report is written."""
    report = settings.load_report
    return ReportRules(
        min_interval_s=report.min_interval_s,
        max_interval_s=report.max_interval_s,
        threshold_percent=report.threshold_percent,
        weights=report.weights,
        host_interval_s=report.host_usage_interval_s,
        stats_interval_s=report.stats_interval_s,
    )


def host_usage(settings: Settings, clock: Clock) -> UsageSource:
    """How much of this machine is used."""
    report = settings.load_report
    return HostUsage(HostSampler(clock, nics=report.nics, nic_speed_gbps=report.nic_speed_gbps))


def usage_source(settings: Settings, dataplane: DataPlane, host: UsageSource) -> UsageSource:
    """Whose usage counts as the broker's."""
    if settings.load_report.host_usage_source is HostUsageSource.DATAPLANE:
        return DataPlaneUsage(dataplane, host)
    return host
