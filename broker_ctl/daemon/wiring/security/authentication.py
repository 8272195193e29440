"""Who clients are, and what this daemon is to others, from the settings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.secret_files import read_secret
from broker_ctl.daemon.wiring.security.authorization import cluster_roles
from broker_ctl.daemon.wiring.security.jwt import build_jwt_tokens
from broker_ctl.security.authentication import Authenticator, Provider
from broker_ctl.security.authorization.cluster_roles import ClusterRoles
from broker_ctl.security.certificates.certificate_roles import CertificateRoles
from broker_ctl.security.loopback_token import LoopbackToken, runtime_directory
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.settings.addresses import is_loopback
from broker_ctl.settings.conditions import LOOPBACK_TOKEN, TOKENS
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.security import AuthenticationProvider


@dataclass(frozen=True, slots=True)
class Authentication:
    """How clients authenticate, and this broker to its peers.

    Attributes:
        roles: those with rights in the whole cluster.
        tokens: the static ones; None: clients do not authenticate with them.
        own_token: what this broker sends its peers; empty: it has none.
        local: the token for commands on this machine; None: there is none.
    """

    authenticator: Authenticator
    roles: ClusterRoles
    tokens: StaticTokens | None = None
    own_token: str = field(default="", repr=False)
    local: LoopbackToken | None = field(default=None, repr=False)


def build_authentication(settings: Settings, clock: Clock) -> Authentication | None:
    """How clients authenticate; None: they need not.

    Raises:
        StartError, SettingsError: a secret file that cannot be read, or is not a secret.
    """
    security = settings.security
    if not security.authentication_enabled:
        return None
    roles, providers = cluster_roles(settings), list[Provider]()
    now_s, own_token = (lambda: clock.wall_ms() / 1000), ""
    tokens = _static_tokens(settings)
    verified = build_jwt_tokens(settings, now_s) if TOKENS.holds(settings) else None
    if tokens is not None:
        providers.append(tokens)
        if verified is None:
            own_token = tokens.first_of(roles.super_users)
        else:
            # The super users may have tokens of the other kind.
            own_token = next(tokens.of_roles(roles.super_users), b"").decode()
    if verified is not None:
        providers.append(verified)
    if AuthenticationProvider.TLS in security.authentication_providers:
        providers.append(CertificateRoles(security.principal_mapping_rules, now_s))
    local = LoopbackToken() if LOOPBACK_TOKEN.holds(settings) else None
    if local is not None:
        providers.append(local)
    return Authentication(Authenticator(providers), roles, tokens, own_token, local)


@contextmanager
def published_token(settings: Settings, authentication: Authentication | None) -> Iterator[None]:
    """For the length of the block, commands on this machine find the token that is for them.

    Raises:
        StartError: its file cannot be written.
    """
    if authentication is None or authentication.local is None:
        yield
        return
    broker = settings.broker
    ports = (broker.web_service_port, broker.web_service_port_tls)
    # A listener at all addresses is reached at this one too.
    host = broker.bind_address if is_loopback(broker.bind_address) else "127.0.0.1"
    addresses = [(host, port) for port in ports if port is not None]
    with authentication.local.published(runtime_directory(os.environ), addresses):
        yield


def _static_tokens(settings: Settings) -> StaticTokens | None:
    file = settings.security.secret_file
    if file is None or not TOKENS.holds(settings):
        return None
    return StaticTokens.parse(read_secret(file, "tokenSecretKeyFile").decode(errors="replace"))
