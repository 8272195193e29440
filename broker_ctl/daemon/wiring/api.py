"""Rules of the API, from the settings."""

from typing import Final

from broker_ctl.api.http.access.broker_certificates import BrokerCertificates
from broker_ctl.api.http.access.peer_requests import PeerRequests
from broker_ctl.api.http.dependencies import ApiRules, BinaryLimits
from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.daemon.wiring.security.authentication import Authentication
from broker_ctl.daemon.wiring.security.authorization import authorization_policy
from broker_ctl.daemon.wiring.security.rotation import dataplane_secret, server_tls
from broker_ctl.security.client_limits.request_rates import RateLimits
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.conditions import CONSOLE, TOKENS
from broker_ctl.settings.http_ports import further_ports
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.tokens.jwt import JwtSettings

# Heartbeats are late by the lag of the event loop: up to a tenth of their period is harmless.
_LAG_RATIO: Final = 0.1


def api_rules(
    settings: Settings,
    authentication: Authentication | None,
    reloader: Reloader,
    peers: PeerRequests | None = None,
    brokers: BrokerCertificates | None = None,
) -> ApiRules:
    """Addresses, authentication and limits of the API.

    Raises:
        StartError, SettingsError: a secret, a certificate or a key that cannot be read.
    """
    lease = LeaseRules(settings.metadata.session_timeout_s, settings.zookeeper.tick_time_s)
    return ApiRules(
        cluster=settings.broker.cluster_name,
        address=settings.broker.bind_address,
        port=settings.broker.web_service_port,
        port_tls=settings.broker.web_service_port_tls,
        lookup_port=settings.broker.lookup_service_port,
        lookup_port_tls=settings.broker.lookup_service_port_tls,
        tls=server_tls(settings, reloader),
        further_ports=further_ports(settings),
        hosts=_host_names(settings),
        max_body_bytes=settings.api.max_body_bytes,
        status_file=settings.api.status_file,
        max_requests=settings.api.max_requests_in_flight,
        max_lookups=settings.api.max_concurrent_lookups,
        max_connections=settings.api.max_connections,
        max_connections_of_address=settings.client_limits.http_connections_of_address,
        rates=_http_rates(settings),
        max_failure_delay_s=settings.client_limits.max_failure_delay_s,
        binary=_binary_limits(settings),
        idle_timeout_s=settings.api.idle_timeout_s,
        max_loop_lag_s=lease.period_s * _LAG_RATIO,
        split_algorithm=settings.splitting.default_algorithm,
        split_algorithms=settings.splitting.supported_algorithms,
        authenticator=None if authentication is None else authentication.authenticator,
        policy=authorization_policy(settings),
        authenticates_metrics=authentication is not None
        and settings.security.authenticates_metrics,
        refresh_check_s=_refresh_check_s(settings),
        dataplane_secret=dataplane_secret(settings, reloader),
        peers=peers,
        broker_certificates=brokers,
        has_console=CONSOLE.holds(settings),
        is_console_read_only=settings.api.is_console_read_only,
    )


def _http_rates(settings: Settings) -> RateLimits:
    limits = settings.client_limits
    return RateLimits(
        total_per_s=limits.http_req_per_s if limits.limits_http else 0.0,
        address_per_s=limits.http_of_address_req_per_s,
        role_per_s=_of_roles(settings, limits.http_of_role_req_per_s),
    )


def _binary_limits(settings: Settings) -> BinaryLimits:
    limits, broker = settings.client_limits, settings.broker
    if broker.lookup_service_port is None and broker.lookup_service_port_tls is None:
        return BinaryLimits()
    return BinaryLimits(
        limits.binary_connections,
        limits.binary_connections_of_address,
        RateLimits(
            address_per_s=limits.binary_of_address_req_per_s,
            role_per_s=_of_roles(settings, limits.binary_of_role_req_per_s),
        ),
    )


def _of_roles(settings: Settings, per_s: float) -> float:
    return per_s if settings.security.authentication_enabled else 0.0


def _refresh_check_s(settings: Settings) -> float:
    """Without tokens nothing expires during a connection but certificates."""
    jwt = settings.jwt if TOKENS.holds(settings) else JwtSettings()
    return float(jwt.refresh_check_s)


def _host_names(settings: Settings) -> tuple[str, ...]:
    """The names under which clients reach the HTTP server."""
    broker = settings.broker
    listeners = (listener.address.host for listener in broker.advertised_listeners)
    further = (port.address for port in further_ports(settings))
    bound = (broker.bind_address, *further)
    named = (broker.advertised_host, *bound, *listeners, *settings.api.allowed_hosts)
    return tuple(dict.fromkeys(named))
