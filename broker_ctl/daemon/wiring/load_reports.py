"""The rules of load reports, from the settings."""

from broker_ctl.broker.load.host_usage import DataPlaneUsage, HostSampler, HostUsage, UsageSource
from broker_ctl.broker.load.publish_rules import ReportRules
from broker_ctl.broker.load.reporter import ReportForm
from broker_ctl.clock import Clock
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BrokerLoad
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, SIMPLE
from broker_ctl.core.strategies.simple.shedding import is_overloaded, is_underloaded
from broker_ctl.daemon.wiring.policy_rules import simple_rules
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.load_report import HostUsageSource
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.simple import BrokerReport, LoadReport

# Bytes of a request besides the report: paths, headers, the registration in the same request.
_AROUND_BYTES = 32 * 1024


def report_rules(settings: Settings) -> ReportRules:
    """The rules for publishing load reports."""
    report = settings.load_report
    return ReportRules(
        min_interval_s=report.min_interval_s,
        max_interval_s=report.max_interval_s,
        threshold_percent=report.threshold_percent,
        weights=report.weights,
        is_by_resource=LOAD_MANAGERS.find(settings.balancing.load_manager) is SIMPLE,
        host_interval_s=report.host_usage_interval_s,
        stats_interval_s=report.stats_interval_s,
        max_bytes=settings.zookeeper.jute_max_buffer_bytes - _AROUND_BYTES,
    )


def host_usage(settings: Settings, clock: Clock) -> UsageSource:
    """The source of this machine's resource usage."""
    report = settings.load_report
    return HostUsage(HostSampler(clock, nics=report.nics, nic_speed_gbps=report.nic_speed_gbps))


def usage_source(settings: Settings, dataplane: DataPlane, host: UsageSource) -> UsageSource:
    """The source of the broker's resource usage."""
    if settings.load_report.host_usage_source is HostUsageSource.DATAPLANE:
        return DataPlaneUsage(dataplane, host)
    return host


def report_form(settings: Settings) -> ReportForm:
    """The record that this broker's load manager publishes."""
    manager = LOAD_MANAGERS.find(settings.balancing.load_manager)
    rules, broker = simple_rules(settings), settings.broker
    flags = broker.takes_persistent_topics, broker.takes_non_persistent_topics
    protocols = dict(one.split("=", 1) for one in broker.protocols)

    def simple(
        urls: BrokerUrls, load: BrokerLoad, gains: tuple[str, ...], losses: tuple[str, ...]
    ) -> BrokerReport:
        is_under, is_over = is_underloaded(load.usage, rules), is_overloaded(load.usage, rules)
        return LoadReport(urls, load, gains, losses, is_under, is_over, *flags, protocols)

    def modular(
        urls: BrokerUrls, load: BrokerLoad, gains: tuple[str, ...], losses: tuple[str, ...]
    ) -> BrokerReport:
        return LocalBrokerData(urls, load, gains, losses, manager.class_name, *flags, protocols)

    return simple if manager is SIMPLE else modular
