"""Builds all parts of a broker's daemon; starts none."""

from ssl import SSLContext
from typing import Final

from broker_ctl.api.http.dependencies import ApiRules, ClientForwarding, Dependencies
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.balancer.context.decisions import DecisionLog
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.execution.executor import ExecutorConnections
from broker_ctl.broker.lookup.lookup import LeaseGuard
from broker_ctl.broker.ownership.command_handler import OwnTopics
from broker_ctl.broker.ownership.ring_change import Boundaries
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.foundation import Foundation, while_leading
from broker_ctl.daemon.wiring.history import leader_history
from broker_ctl.daemon.wiring.keys import peer_tls
from broker_ctl.daemon.wiring.part_rules import api_rules, leader_rules, split_rules
from broker_ctl.daemon.wiring.partitions import PartitionParts
from broker_ctl.daemon.wiring.peers import (
    broker_certificates,
    peer_contexts,
    peer_requests,
    peer_signer,
)
from broker_ctl.daemon.wiring.security import needs_dual_authorization, requires_signatures
from broker_ctl.daemon.wiring.services import (
    Coordination,
    DaemonStatus,
    build_lookup,
    build_services,
)
from broker_ctl.http_client import HttpClient, Sign
from broker_ctl.peer_http import PeerHttp, SignFor
from broker_ctl.settings.root import Settings

_PEER_REPLY_BYTES: Final = 1 << 20
_CLIENT_REPLY_BYTES: Final = 8 << 20
_PEER_TIMEOUT_S: Final = 10.0


class Assembly:
    """Every part of a daemon, wired and not yet started; no partitions without a brokerId.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """

    def __init__(self, settings: Settings, environment: Environment) -> None:
        base = self.foundation = Foundation(settings, environment)
        coordination = self.coordination = Coordination(base)
        services = self.services = build_services(base, coordination)
        tls = peer_tls(settings, environment.reloader)
        self._tls_for = peer_contexts(settings, tls)
        self.peers_http: Final = _peers_http(tls)
        # It has no token: a request of a client carries the client's own, or none.
        self.clients_http: Final = _clients_http(tls)
        self.balancer: Final = self._build_balancer()
        number = settings.broker.numeric_id
        partitions = self.partitions = (
            None
            if number is None
            else PartitionParts(
                base, services, self._bound(environment.calls(self.peers_http)), number
            )
        )
        replicas = None if partitions is None else partitions.replicas
        status = self.status = DaemonStatus(
            base.watcher, base.clock, base.faults, lambda: services.ownership.granted, replicas
        )
        authorised = LeaseGuard(base.watcher)
        self.lookup: Final = build_lookup(base, coordination, services, self.balancer, authorised)
        dependencies = Dependencies(
            own_id=base.urls.broker_id,
            services=services,
            lookup=self.lookup,
            boundaries=Boundaries(services.dataplane, services.configuration.derive(split_rules)),
            topics=OwnTopics(services.ownership.owned, services.dataplane),
            cluster=coordination.cluster,
            balancer=self.balancer,
            admin=while_leading(coordination.election, self.balancer),
            readiness=status.readiness,
            authority=status.authority,
            session_state=status.session_state,
            peers=self._bound(self.peers_http),
            forwarding=ClientForwarding(self._for_client, self._is_proven),
            instruments=base.instruments,
            clock=base.clock,
            audit=base.audit,
            tracer=base.tracer,
            authorised=authorised,
            partitions=None if partitions is None else partitions.dependencies,
            replicas=replicas,
        )
        self.api: Final = environment.api(dependencies, self._api_rules())

    def _api_rules(self) -> ApiRules:
        base = self.foundation
        return api_rules(
            base.settings,
            base.authentication,
            base.environment.reloader,
            peer_requests(base),
            broker_certificates(base),
        )

    def _bound(self, http: HttpClient) -> PeerHttp:
        """Requests to other brokers, at the addresses of their registrations.

        They go over TLS alone if that or certificates for them are set.
        """
        return self._to_brokers(http, peer_signer(self.foundation))

    def _to_brokers(self, http: HttpClient, sign_for: SignFor | None) -> PeerHttp:
        base, tls = self.foundation, self.foundation.settings.tls
        files = (tls.peers_trust_certs_file, tls.peers_certificate_file)
        return PeerHttp(
            http,
            base.addresses,
            self.coordination.cluster.registered,
            sign_for=sign_for,
            requires_tls=tls.peers_enabled or files != (None, None),
            tls_for=self._tls_for,
        )

    def _for_client(self, headers: Sign) -> PeerHttp:
        """Requests to other brokers for a client of this one, with the client's credentials."""
        return self._to_brokers(self.clients_http, lambda *_: headers)

    def _is_proven(self, broker_id: str) -> bool:
        """See `ClientForwarding`: by its certificate, or by the signature of its registration."""
        if self._tls_for is not None:
            return True
        is_registered = self.coordination.registry.peer(broker_id) is not None
        return is_registered and requires_signatures(self.foundation.settings)

    def _build_balancer(self) -> LoadBalancer:
        base, coordination, services = self.foundation, self.coordination, self.services
        own = services.commands.handle
        http = self._bound(self.peers_http)
        peers = base.environment.peers(coordination.registry, http, own)
        return LoadBalancer(
            BalancerDependencies(
                own_id=base.urls.broker_id,
                store=base.metadata,
                registry=coordination.registry,
                moves=coordination.moves,
                build_executor=ExecutorConnections(coordination.moves, peers).build_executor,
                clock=base.clock,
                rng=base.rng,
                journal=DecisionLog(services.history),
                rules=services.configuration.derive(leader_rules),
                ring_of=services.namespaces.ring,
                owner_of=services.owners.owner_of,
                directives=coordination.directives,
                constraints=services.constraints.current,
                configuration_store=base.configuration,
                history=leader_history(services.history, services.configuration),
                needs_dual_authorization=needs_dual_authorization(base.settings),
                tracer=base.tracer,
            ),
        )


def _clients_http(tls: SSLContext | None) -> HttpClient:
    return HttpClient(timeout_s=_PEER_TIMEOUT_S, max_body_bytes=_CLIENT_REPLY_BYTES, ssl=tls)


def _peers_http(tls: SSLContext | None) -> HttpClient:
    return HttpClient(
        timeout_s=_PEER_TIMEOUT_S,
        max_body_bytes=_PEER_REPLY_BYTES,
        ssl=tls,
    )
