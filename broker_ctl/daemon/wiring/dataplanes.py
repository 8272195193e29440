"""The data plane and the replica plane of this broker, by the settings."""

import logging
import random
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from broker_ctl.broker.load.host_usage import DataPlaneUsage, HostSampler, HostUsage, UsageSource
from broker_ctl.broker.load.reporter import ReportForm, ReportRules
from broker_ctl.clock import Clock
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BrokerLoad
from broker_ctl.core.strategies.load_managers import LOAD_MANAGERS, SIMPLE
from broker_ctl.core.strategies.simple import is_overloaded, is_underloaded
from broker_ctl.daemon.wiring.keys import dataplane_secret, rotating_replication_contexts
from broker_ctl.daemon.wiring.part_rules import simple_rules
from broker_ctl.dataplane.bundles.interface import Authority, DataPlane
from broker_ctl.dataplane.webhook.replica_wire import ReplicaPlane
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane, WebhookReplicas
from broker_ctl.errors import DataPlaneRefused, DataPlaneUnreachable, StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.products import Product, load
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.dataplane import DataPlaneKind
from broker_ctl.settings.subjects.load_report import HostUsageSource
from broker_ctl.settings.subjects.session import OwnershipAuthority
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.simple import BrokerReport, LoadReport

log = logging.getLogger(__name__)

# The data plane, by the settings.


_MAX_REPLY_BYTES = 16 << 20


class SimulatedBroker(Protocol):
    """What the module of the simulated broker process offers."""

    def build_dataplane(self, settings: Settings, clock: Clock, rng: random.Random) -> DataPlane:
        """Build its bundles.

        Raises:
            SettingsError: an unknown workload.
        """
        ...

    def build_replica_plane(
        self,
        settings: Settings,
        clock: Clock,
        authority: Callable[[], Authority],
        rng: random.Random,
        contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None,
    ) -> "OwnReplicaPlane":
        """Build its replicas; ``contexts`` serve and call, None: without TLS."""
        ...


def _simulated() -> SimulatedBroker:
    return cast("SimulatedBroker", load(Product.SIMULATED_BROKER))


def build_dataplane(
    settings: Settings, clock: Clock, rng: random.Random, reloader: Reloader
) -> DataPlane:
    """Build the data plane of this broker.

    Raises:
        StartError: a secret that cannot be read. SettingsError: an unknown workload.
    """
    chosen = settings.dataplane
    match chosen.kind:
        case DataPlaneKind.SIMULATED:
            return _simulated().build_dataplane(settings, clock, rng)
        case DataPlaneKind.WEBHOOK:
            if chosen.url is None or chosen.secret_file is None:
                raise StartError("dataPlane=webhook needs dataPlaneUrl and dataPlaneSecretFile")
            http = HttpClient(
                token=dataplane_secret(settings, reloader),
                timeout_s=chosen.request_timeout_s,
                max_body_bytes=_MAX_REPLY_BYTES,
            )
            return WebhookDataPlane(
                str(chosen.url), http, clock, failure_timeout_s=chosen.failure_timeout_s
            )
        case DataPlaneKind.PULSAR:
            raise StartError("dataPlane=pulsar: the cluster's brokers serve, this daemon does not")


def require_safe_authority(settings: Settings, dataplane: DataPlane) -> None:
    """Check that ownership without a lease has a storage that rejects stale fencing tokens.

    Raises:
        StartError: the data plane does not declare such a storage.
    """
    is_storage = settings.session.ownership_authority is OwnershipAuthority.STORAGE
    if is_storage and not dataplane.declared.storage_refuses_old_tokens:
        raise StartError(
            "ownershipAuthority=storage: needs a data plane whose storage rejects stale fencing "
            "tokens, which this one does not declare; use ownershipAuthority=lease"
        )


# The replica plane of this broker, by the settings.


class OwnReplicaPlane(ReplicaPlane, Protocol):
    """A replica plane with start and stop."""

    async def start(self) -> None:
        """Prepare for instructions.

        Raises:
            StartError: the plane is not usable.
        """
        ...

    async def stop(self) -> None:
        """Release all resources; replicas stay on disk."""
        ...


class _ForeignReplicas(WebhookReplicas):
    """Replicas in a broker process that this daemon neither starts nor stops."""

    async def start(self) -> None:
        """Check that the process keeps replicas.

        Raises:
            StartError: it does not.
        """
        try:
            await self.replicas()
        except DataPlaneUnreachable as error:
            # It answered just before; it is asked again before the first instruction.
            log.warning("cannot list the replicas of the broker process: %s; retrying later", error)
        except DataPlaneRefused as error:
            raise StartError(
                f"the broker process keeps no replicas: {error}; unset brokerId"
            ) from None

    async def stop(self) -> None:
        """Does nothing: the process ends its leaderships at the deadline of its authority."""


def build_replica_plane(
    settings: Settings,
    dataplane: DataPlane,
    clock: Clock,
    authority: Callable[[], Authority],
    rng: random.Random,
    *,
    reloader: Reloader,
) -> OwnReplicaPlane:
    """Build the replica plane in the broker process of ``dataplane``.

    A process behind HTTP requests its authority itself, and does not use ``authority``.
    """
    if isinstance(dataplane, WebhookDataPlane):
        return _ForeignReplicas(dataplane.link)
    return _simulated().build_replica_plane(
        settings, clock, authority, rng, rotating_replication_contexts(settings, reloader)
    )


# The rules of load reports, from the settings.


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
