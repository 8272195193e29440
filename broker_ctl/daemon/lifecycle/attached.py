"""Builds every part of a daemon that balances a Pulsar cluster from outside, and starts none.

It owns nothing and registers nowhere among the brokers: what it writes lies under ``/broker-ctl``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.api.attached_server import AttachedApiServer, AttachedDependencies
from broker_ctl.balancer.attached.cluster import ClusterNodes
from broker_ctl.balancer.attached.executor import Attachment
from broker_ctl.balancer.attached.foreign_balancer import ClusterBalancer
from broker_ctl.balancer.balancer import WRITING, LoadBalancer
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.context.history_recorder import LeaderHistory
from broker_ctl.balancer.context.own_moves import OwnMoves
from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.broker.history.decision_log import DecisionLog
from broker_ctl.broker.history.writer import History
from broker_ctl.broker.policies.constraints import ConstraintsCache
from broker_ctl.coordination.election.election import Election
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.coordination.replicated.directives import Directives
from broker_ctl.daemon.metrics.balancing import bind_directives, bind_leader
from broker_ctl.daemon.metrics.foundation import bind_caches, bind_corrupt, bind_foundation
from broker_ctl.daemon.wiring.api import api_rules
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.foundation import (
    Foundation,
    build_election,
    build_foundation,
    while_leading,
)
from broker_ctl.daemon.wiring.history import bind_history, build_history, policy_version
from broker_ctl.daemon.wiring.leader_rules import leader_rules
from broker_ctl.daemon.wiring.status import DaemonStatus
from broker_ctl.daemon.wiring.stores import read_secret
from broker_ctl.daemon.wiring.tls import cluster_context
from broker_ctl.dataplane.pulsar.admin import PulsarAdmin
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.store import paths

_MAX_REPLY_BYTES: Final = 16 << 20
_BY_TOPICS: Final = "topic_count_equally_divide"
_MAX_SHARE: Final = "loadBalancerNamespaceBundleMaxBrokerPercentage"
_LARGE_SHARE_RATIO: Final = 0.5


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed of the cluster and of the orders of its operators."""

    brokers: ForeignBrokers
    nodes: ClusterNodes
    constraints: ConstraintsCache
    directives: Directives


@dataclass(frozen=True, slots=True)
class Attached:
    """Every part, wired and not yet started."""

    foundation: Foundation
    followed: Followed
    admin: PulsarAdmin
    http: HttpClient
    cluster_balancer: ClusterBalancer
    history: History | None
    election: Election
    balancer: LoadBalancer
    api: AttachedApiServer
    status: DaemonStatus


def attach(settings: Settings, environment: Environment) -> Attached:
    """Wire a daemon for ``dataPlane=pulsar``.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """
    base = build_foundation(settings, environment)
    followed, http = _followed(base), _admin_http(settings)
    admin = _admin(settings, http, followed.brokers)
    attachment = _attachment(base, admin, followed.brokers)
    history = build_history(base)
    journal = DecisionLog(history)
    balancer = _balancer(base, followed, attachment, journal, history)
    election = build_election(base, paths.ATTACH_ELECTION)
    status = DaemonStatus(base.watcher, base.clock, base.faults)
    bind_foundation(base, {"attach": election})
    bind_corrupt(base.instruments.store, lambda: _corrupt(followed, balancer))
    bind_caches(base.instruments.caches, followed.nodes.caches)
    bind_directives(base.instruments, followed.directives)
    bind_leader(base.instruments, balancer, attachment.moves)
    base.instruments.leader.destinations_ignored.bind(lambda: attachment.moves.misdirected)
    bind_history(base.instruments.history, history)
    dependencies = AttachedDependencies(
        own_id=base.urls.broker_id,
        cluster=LiveCluster(None, election, base.watcher, followed.brokers),
        admin=while_leading(election, balancer),
        directives=followed.directives,
        clock=base.clock,
        journal=journal,
        readiness=status.readiness,
        authority=status.authority,
        session_state=status.session_state,
        instruments=base.instruments,
        nodes=followed.nodes,
        cluster_balancer=attachment.cluster_balancer,
    )
    return Attached(
        foundation=base,
        followed=followed,
        admin=admin,
        http=http,
        cluster_balancer=attachment.cluster_balancer,
        history=history,
        election=election,
        balancer=balancer,
        api=AttachedApiServer(dependencies, api_rules(settings, base.credentials)),
        status=status,
    )


def _corrupt(followed: Followed, balancer: LoadBalancer) -> Mapping[str, int]:
    return {
        "owner": followed.nodes.owners.corrupt,
        "local-policies": followed.nodes.rings.corrupt,
        "drain": followed.directives.corrupt,
        "load-report": balancer.tally.corrupt_reports,
        "broker": followed.brokers.corrupt,
        "constraint": followed.constraints.corrupt,
    }


def _followed(base: Foundation) -> Followed:
    stores = base.metadata, base.configuration
    return Followed(
        ForeignBrokers(base.metadata, rng=base.rng),
        ClusterNodes(*stores, base.clock, base.cache_rules, rng=base.rng),
        ConstraintsCache(*stores, base.settings.broker.cluster_name, rng=base.rng),
        Directives(base.lasting, rng=base.rng),
    )


def _attachment(base: Foundation, admin: PulsarAdmin, brokers: ForeignBrokers) -> Attachment:
    pulsar = base.settings.pulsar
    cluster_balancer = ClusterBalancer(
        admin,
        base.clock,
        acts=pulsar.acts and not base.settings.balancing.dry_run,
        despite_cluster_balancer=pulsar.acts_despite_cluster_balancer,
        obstacle=brokers.destination_obstacle,
    )
    return Attachment(admin, cluster_balancer, OwnMoves())


def _balancer(
    base: Foundation,
    followed: Followed,
    attachment: Attachment,
    journal: DecisionLog,
    history: History | None,
) -> LoadBalancer:
    rules, policy = attached_rules(base.settings), policy_version(base.settings)
    return LoadBalancer(
        BalancerDependencies(
            own_id=base.urls.broker_id,
            store=base.metadata,
            registry=followed.brokers,
            moves=attachment.moves,
            build_executor=attachment.build_executor,
            clock=base.clock,
            rng=base.rng,
            journal=journal,
            rules=lambda: rules,
            ring_of=followed.nodes.ring_of,
            owner_of=followed.nodes.owner_of,
            directives=followed.directives,
            constraints=followed.constraints.current,
            history=None if history is None else LeaderHistory(history, lambda: policy),
        ),
        # The brokers place, and their leader keeps the averages.
        chores=WRITING if base.settings.pulsar.acts else {},
    )


def attached_rules(settings: Settings) -> LeaderRules:
    """As for brokers of our own, without what a Pulsar cluster cannot be asked for.

    What it has split it never merges again: unless the settings say otherwise, a bundle is split
    for its share only where it is so large that hardly any placement can make up for it.
    """
    rules = leader_rules(settings)
    splitting = rules.splitting
    if splitting is not None:
        share_ratio = splitting.max_share_ratio
        if settings.origin(_MAX_SHARE) == DEFAULT_ORIGIN and share_ratio > 0:
            share_ratio = _LARGE_SHARE_RATIO
        # Where the middle of the traffic is, only our own brokers know.
        splitting = replace(splitting, share_algorithm=_BY_TOPICS, max_share_ratio=share_ratio)
    return replace(
        rules,
        splitting=splitting,
        merging=None,
        is_dry_run=settings.balancing.dry_run or not settings.pulsar.acts,
    )


def _admin_http(settings: Settings) -> HttpClient:
    pulsar = settings.pulsar
    token_file = pulsar.token_file
    return HttpClient(
        token=None if token_file is None else read_secret(token_file, "pulsarTokenFile"),
        timeout_s=pulsar.request_timeout_s,
        max_body_bytes=_MAX_REPLY_BYTES,
        ssl=cluster_context(settings),
    )


def _admin(settings: Settings, http: HttpClient, brokers: ForeignBrokers) -> PulsarAdmin:
    pulsar = settings.pulsar
    if not pulsar.admin_urls:
        raise StartError("dataPlane=pulsar needs pulsarAdminUrl")
    unload_s = settings.session.bundle_unloading_timeout_s
    return PulsarAdmin(
        tuple(map(str, pulsar.admin_urls)),
        http,
        lambda: brokers.urls,
        act_timeout_s=pulsar.request_timeout_s + unload_s,
    )
