"""Who clients are, and what this daemon is to others, from the settings."""

from dataclasses import dataclass, field

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.secret_files import read_secret
from broker_ctl.daemon.wiring.security.authorization import cluster_roles
from broker_ctl.daemon.wiring.security.jwt import build_jwt_tokens
from broker_ctl.security.authentication import Authenticator, Provider
from broker_ctl.security.authorization.cluster_roles import ClusterRoles
from broker_ctl.security.certificates.certificate_roles import CertificateRoles
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.settings.conditions import TOKENS
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.security import AuthenticationProvider


@dataclass(frozen=True, slots=True)
class Authentication:
    """How clients authenticate, and this broker to its peers.

    Attributes:
        roles: those with rights in the whole cluster.
        tokens: the static ones; None: clients do not authenticate with them.
        own_token: what this broker sends its peers; empty: it has none.
    """

    authenticator: Authenticator
    roles: ClusterRoles
    tokens: StaticTokens | None = None
    own_token: str = field(default="", repr=False)


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
    return Authentication(Authenticator(providers), roles, tokens, own_token)


def _static_tokens(settings: Settings) -> StaticTokens | None:
    file = settings.security.secret_file
    if file is None or not TOKENS.holds(settings):
        return None
    return StaticTokens.parse(read_secret(file, "tokenSecretKeyFile").decode(errors="replace"))
