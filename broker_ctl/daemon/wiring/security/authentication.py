"""Who clients are, and what this daemon is to others, from the settings."""

from dataclasses import dataclass, field

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.secret_files import read_secret
from broker_ctl.daemon.wiring.security.authorization import cluster_roles
from broker_ctl.daemon.wiring.security.jwt import build_jwt_tokens
from broker_ctl.security.authentication import Authenticator, Provider
from broker_ctl.security.authorization.cluster_roles import ClusterRoles
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.settings.root import Settings


@dataclass(frozen=True, slots=True)
class Authentication:
    """How clients authenticate, and this broker to its peers.

    Attributes:
        roles: those with rights in the whole cluster.
        tokens: the static ones.
        own_token: what this broker sends its peers.
    """

    authenticator: Authenticator
    roles: ClusterRoles
    tokens: StaticTokens
    own_token: str = field(repr=False)


def build_authentication(settings: Settings, clock: Clock) -> Authentication | None:
    """How clients authenticate; None: they need not.

    Raises:
        StartError, SettingsError: a secret file that cannot be read, or is not a secret.
    """
    security = settings.security
    if not security.authentication_enabled or security.secret_file is None:
        return None
    roles = cluster_roles(settings)
    secret = read_secret(security.secret_file, "tokenSecretKeyFile")
    tokens = StaticTokens.parse(secret.decode(errors="replace"))
    providers: list[Provider] = [tokens]
    verified = build_jwt_tokens(settings, lambda: clock.wall_ms() / 1000)
    if verified is not None:
        providers.append(verified)
    return Authentication(
        Authenticator(providers), roles, tokens, own_token=tokens.first_of(roles.super_users)
    )
