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


def usage_source(settings: Settings, dataplane: DataPlane, clock: Clock) -> UsageSource:
    """Whose usage counts as the broker's."""
    report = settings.load_report
    sampler = HostSampler(clock, nics=report.nics, nic_speed_gbps=report.nic_speed_gbps)
    host = HostUsage(sampler)
    if report.host_usage_source is HostUsageSource.DATAPLANE:
        return DataPlaneUsage(dataplane, host)
    return host
