"""Builds all parts of a daemon that balances a Pulsar cluster from outside; starts none.

Such a daemon owns no bundles and does not register as a broker; it writes only below
``/broker-ctl``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.admin_source import AdminSource
from broker_ctl.attach.cluster import ClusterNodes
from broker_ctl.attach.foreign_balancer import ClusterBalancer
from broker_ctl.attach.metadata_source import Cause, ClusterSource, MetadataSource
from broker_ctl.attach.projection.projection import ClusterProjection
from broker_ctl.attach.pulsar_executor import Attachment
from broker_ctl.attach.server import AttachedApiServer, AttachedDependencies
from broker_ctl.balancer.balancer import WRITING, LoadBalancer
from broker_ctl.balancer.context.decisions import DecisionLog, LeaderHistory
from broker_ctl.balancer.context.dependencies import BalancerDependencies, LeaderRules, OwnMoves
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.coordination.directives import Directives
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.daemon.metrics import (
    bind_caches,
    bind_corrupt,
    bind_directives,
    bind_foundation,
    bind_leader,
)
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.foundation import Foundation, while_leading
from broker_ctl.daemon.wiring.history import bind_history, build_history, policy_version
from broker_ctl.daemon.wiring.keys import bind_secrets, cluster_tls, pulsar_token
from broker_ctl.daemon.wiring.part_rules import api_rules, leader_rules
from broker_ctl.daemon.wiring.security import (
    bind_audit_log,
    bind_cluster_keys,
    needs_dual_authorization,
)
from broker_ctl.daemon.wiring.services import DaemonStatus, session_grant
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.kinds import Labels
from broker_ctl.peer_http import PeerAddresses
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.store import paths
from broker_ctl.store.in_process.store import InProcessStore

_MAX_REPLY_BYTES: Final = 16 << 20
_BY_TOPICS: Final = "topic_count_equally_divide"
_MAX_SHARE: Final = "loadBalancerNamespaceBundleMaxBrokerPercentage"
_LARGE_SHARE_RATIO: Final = 0.5
# A broker reports at least once in loadBalancerReportUpdateMaxIntervalMinutes; one may be late.
_MISSED_REPORTS: Final = 2
_MISSED_LOOKS: Final = 3


class Attached:
    """Every part for ``dataPlane=pulsar``, wired and not yet started.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """

    def __init__(self, settings: Settings, environment: Environment) -> None:
        base = self.foundation = Foundation(settings, environment)
        stores = base.metadata, base.configuration
        brokers = self.brokers = ForeignBrokers(base.metadata, rng=base.rng)
        nodes = self.nodes = ClusterNodes(*stores, base.clock, base.cache_rules, rng=base.rng)
        cluster = settings.broker.cluster_name
        self.constraints: Final = ConstraintsCache(*stores, cluster, rng=base.rng)
        self.directives: Final = Directives(base.lasting, rng=base.rng)
        self._projection: ClusterProjection | None = None
        self.http, self.admin = admin_of(
            settings, self._broker_urls, base.addresses, environment.reloader
        )
        self.source = self._build_source()
        self.cluster_balancer = self._build_foreign_balancer()
        self.history: Final = build_history(base)
        moves = OwnMoves()
        self.balancer: Final = self._build_balancer(moves)
        election = self.election = base.build_election(paths.ATTACH_ELECTION)
        status = self.status = DaemonStatus(
            base.watcher, base.clock, base.faults, session_grant(base.watcher)
        )
        self._bind_instruments(moves)
        dependencies = AttachedDependencies(
            own_id=base.urls.broker_id,
            cluster=LiveCluster(None, election, base.watcher, brokers, base.addresses),
            balancer=self.balancer,
            admin=while_leading(election, self.balancer),
            clock=base.clock,
            audit=base.audit,
            tracer=base.tracer,
            readiness=status.readiness,
            authority=status.authority,
            session_state=status.session_state,
            instruments=base.instruments,
            nodes=nodes,
            cluster_balancer=self.cluster_balancer,
        )
        self.api: Final = AttachedApiServer(
            dependencies, api_rules(settings, base.authentication, environment.reloader)
        )

    def _broker_urls(self) -> Mapping[str, BrokerUrls]:
        return self.brokers.urls if self._projection is None else self._projection.urls

    def _build_source(self) -> ClusterSource:
        """The metadata store is the cluster's own, or one that shows what its brokers answer."""
        base, settings = self.foundation, self.foundation.settings
        if not isinstance(base.store, InProcessStore):
            return MetadataSource(
                base.metadata,
                self.admin,
                self.brokers,
                base.clock,
                max_report_age_s=_MISSED_REPORTS * settings.load_report.max_interval_s,
            )
        period_s = settings.pulsar.poll_s
        self._projection = ClusterProjection(
            self.admin,
            base.store,
            base.clock,
            cluster=settings.broker.cluster_name,
            period_s=period_s,
        )
        # A look at many brokers takes some requests one after the other.
        max_age_s = max(_MISSED_LOOKS * period_s, _MISSED_LOOKS * settings.pulsar.request_timeout_s)
        return AdminSource(self._projection, base.clock, base.rng, max_age_s=max_age_s)

    def _build_foreign_balancer(self) -> ClusterBalancer:
        base, settings = self.foundation, self.foundation.settings
        return ClusterBalancer(
            self.admin,
            base.clock,
            acts=settings.pulsar.acts and not settings.balancing.dry_run,
            despite_cluster_balancer=settings.pulsar.acts_despite_cluster_balancer,
            source=self.source,
            obstacle=self.brokers.destination_obstacle,
        )

    def _build_balancer(self, moves: OwnMoves) -> LoadBalancer:
        base, history, settings = self.foundation, self.history, self.foundation.settings
        rules, policy = attached_rules(settings), policy_version(settings)
        attachment = Attachment(self.admin, self.cluster_balancer, moves)
        return LoadBalancer(
            BalancerDependencies(
                own_id=base.urls.broker_id,
                store=base.metadata,
                registry=self.brokers,
                moves=moves,
                build_executor=attachment.build_executor,
                clock=base.clock,
                rng=base.rng,
                journal=DecisionLog(history),
                rules=lambda: rules,
                ring_of=self.nodes.ring_of,
                owner_of=self.nodes.owner_of,
                directives=self.directives,
                constraints=self.constraints.current,
                configuration_store=base.configuration,
                history=None if history is None else LeaderHistory(history, lambda: policy),
                needs_dual_authorization=needs_dual_authorization(settings),
                is_healthy=self.admin.is_healthy,
                tracer=base.tracer,
            ),
            # The brokers place, and their leader keeps the averages.
            chores=WRITING if settings.pulsar.acts else {},
        )

    def _bind_instruments(self, moves: OwnMoves) -> None:
        instruments = self.foundation.instruments
        bind_foundation(self.foundation, {"attach": self.election})
        bind_corrupt(
            instruments.store,
            lambda: {
                "owner": self.nodes.owners.corrupt,
                "local-policies": self.nodes.rings.corrupt,
                "drain": self.directives.corrupt,
                "load-report": self.balancer.tally.corrupt_reports,
                "broker": self.brokers.corrupt + self.admin.corrupt,
                "constraint": self.constraints.corrupt,
            },
        )
        bind_caches(instruments.caches, self.nodes.caches)
        bind_directives(instruments, self.directives)
        bind_leader(instruments, self.balancer, moves)
        instruments.attached.destinations_ignored.bind(lambda: moves.misdirected)
        instruments.attached.metadata_outdated.bind(self._outdated_by_cause)
        bind_audit_log(instruments.audit, self.foundation.audit)
        base = self.foundation
        bind_secrets(instruments.secrets, base.settings, base.environment.reloader)
        bind_cluster_keys(instruments.security, self.foundation.cluster_keys)
        bind_history(instruments.history, self.history)

    def _outdated_by_cause(self) -> Mapping[Labels, float]:
        found = self.source.outdated
        return {(cause,): float(found is not None and found.cause is cause) for cause in Cause}


def attached_rules(settings: Settings) -> LeaderRules:
    """The rules for brokers of broker-ctl, without requests that a Pulsar cluster does not support.

    A Pulsar cluster never merges: unless the settings say otherwise, a bundle is split for its
    share only if it is so large that hardly any placement can compensate for it.
    """
    rules = leader_rules(settings)
    splitting = rules.splitting
    if splitting is not None:
        share_ratio = splitting.max_share_ratio
        if settings.origin(_MAX_SHARE) == DEFAULT_ORIGIN and share_ratio > 0:
            share_ratio = _LARGE_SHARE_RATIO
        # Only broker-ctl's own brokers know where half of a bundle's traffic lies.
        splitting = replace(splitting, share_algorithm=_BY_TOPICS, max_share_ratio=share_ratio)
    return replace(
        rules,
        splitting=splitting,
        merging=None,
        is_dry_run=settings.balancing.dry_run or not settings.pulsar.acts,
    )


def admin_of(
    settings: Settings,
    brokers: Callable[[], Mapping[str, BrokerUrls]],
    addresses: PeerAddresses,
    reloader: Reloader,
) -> tuple[HttpClient, PulsarAdmin]:
    """The admin API by the settings, and the client that is closed after it.

    ``brokers`` says who lives now, by broker id; ``addresses`` counts what is refused.

    Raises:
        StartError, SettingsError: no URL is set, or a file cannot be read.
    """
    pulsar, unload_s = settings.pulsar, settings.session.bundle_unloading_timeout_s
    http = HttpClient(
        token=pulsar_token(settings, reloader),
        timeout_s=pulsar.request_timeout_s,
        max_body_bytes=_MAX_REPLY_BYTES,
        ssl=cluster_tls(settings, reloader),
    )
    if not pulsar.admin_urls:
        raise StartError("dataPlane=pulsar needs pulsarAdminUrl")
    urls, act_timeout_s = tuple(map(str, pulsar.admin_urls)), pulsar.request_timeout_s + unload_s
    return http, PulsarAdmin(
        urls,
        http,
        brokers,
        act_timeout_s=act_timeout_s,
        allowed_hosts=pulsar.admin_allowed_hosts,
        addresses=addresses,
    )
