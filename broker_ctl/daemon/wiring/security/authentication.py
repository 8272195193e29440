"""Who clients are, and what this daemon is to others, from the settings.

What verifies JSON Web Tokens is imported only where clients authenticate with them: a daemon
without it starts sooner.
"""

import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker_ctl.clock import Clock
from broker_ctl.daemon.wiring.security.authorization import cluster_roles
from broker_ctl.daemon.wiring.security.rotation import reloadable
from broker_ctl.security.authentication import Authenticator, Provider
from broker_ctl.security.authorization.cluster_roles import ClusterRoles
from broker_ctl.security.certificates.broker_identity import BrokerIdentity
from broker_ctl.security.certificates.certificate_roles import CertificateRoles
from broker_ctl.security.guarded_files import read_secret
from broker_ctl.security.loopback_token import LoopbackToken, runtime_directory
from broker_ctl.security.rotation.provider import NewestProvider
from broker_ctl.security.rotation.reloadable import Reloadable
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.settings.addresses import is_loopback
from broker_ctl.settings.conditions import BROKER_CERTIFICATES, LOOPBACK_TOKEN, TOKENS
from broker_ctl.settings.http_ports import token_addresses
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.security import AuthenticationProvider

if TYPE_CHECKING:
    from broker_ctl.security.jwt_tokens import JwtTokens
    from broker_ctl.security.openid.provider import OpenIdTokens

_TOKEN_FILES: Final = ("tokenSecretKeyFile",)
_JWT_FILES: Final = ("tokenSecretKey", "tokenPublicKey", "tokenJwksFile")


@dataclass(frozen=True, slots=True)
class Authentication:
    """How clients authenticate, and this broker to its peers.

    Attributes:
        roles: those with rights in the whole cluster.
        tokens: the static ones; None: clients do not authenticate with them.
        openid: fetches the keys of issuers; None: their tokens are not accepted.
        local: the token for commands on this machine; None: there is none.
    """

    authenticator: Authenticator
    roles: ClusterRoles
    tokens: Reloadable[StaticTokens] | None = None
    openid: "OpenIdTokens | None" = None
    local: LoopbackToken | None = field(default=None, repr=False)


def build_authentication(
    settings: Settings, clock: Clock, reloader: Reloader
) -> Authentication | None:
    """How clients authenticate; None: they need not.

    Changed files of tokens and keys count for the next request, and at once for connections of the
    binary protocol.

    Raises:
        StartError, SettingsError: a secret file that cannot be read, or is not a secret.
    """
    security = settings.security
    if not security.authentication_enabled:
        return None
    from broker_ctl.daemon.wiring.security.openid import build_openid_tokens

    roles, providers = cluster_roles(settings), list[Provider]()

    def now_s() -> float:
        return clock.wall_ms() / 1000

    verified = reloadable(
        settings, reloader, "jwt-keys", _JWT_FILES, lambda: _jwt_tokens(settings, now_s)
    )
    # The super users may have tokens of the other kind.
    openid = build_openid_tokens(settings, clock, reloader)
    has_others = verified is not None or openid is not None
    needed = frozenset[str]() if has_others else roles.super_users
    tokens = reloadable(
        settings, reloader, "static-tokens", _TOKEN_FILES, lambda: _static_tokens(settings, needed)
    )
    if tokens is not None:
        providers.append(NewestProvider(lambda: tokens.current))
    if verified is not None:
        providers.append(NewestProvider(lambda: verified.current))
    if AuthenticationProvider.TLS in security.authentication_providers:
        rules, brokers = security.principal_mapping_rules, broker_identity(settings)
        providers.append(CertificateRoles(rules, now_s, brokers))
    local = LoopbackToken() if LOOPBACK_TOKEN.holds(settings) else None
    providers += [each for each in (openid, local) if each is not None]
    authenticator = Authenticator(providers)
    for each in (tokens, verified):
        if each is not None:
            each.listen(lambda _: authenticator.announce_change())
    if openid is not None:
        openid.listen(authenticator.announce_change)
    return Authentication(authenticator, roles, tokens, openid, local)


@asynccontextmanager
async def authenticating(
    settings: Settings, authentication: Authentication | None
) -> AsyncIterator[None]:
    """For the length of the block, keys of issuers are fetched, and local commands have a token.

    Raises:
        StartError: the file of that token cannot be written.
    """
    openid = None if authentication is None else authentication.openid
    with published_token(settings, authentication):
        if openid is None:
            yield
            return
        openid.start()
        try:
            yield
        finally:
            await openid.close()


def broker_identity(settings: Settings) -> BrokerIdentity | None:
    """Judges the certificates of brokers; None: they do not prove their ids to each other."""
    if not BROKER_CERTIFICATES.holds(settings):
        return None
    return BrokerIdentity(settings.broker.cluster_name)


@contextmanager
def published_token(settings: Settings, authentication: Authentication | None) -> Iterator[None]:
    """For the length of the block, commands on this machine find the token that is for them.

    Raises:
        StartError: its file cannot be written.
    """
    if authentication is None or authentication.local is None:
        yield
        return
    # A listener at all addresses is reached at this one too.
    addresses = [
        (host if is_loopback(host) else "127.0.0.1", port)
        for host, port in token_addresses(settings)
    ]
    with authentication.local.published(runtime_directory(os.environ), addresses):
        yield


def _jwt_tokens(settings: Settings, now_s: Callable[[], float]) -> "JwtTokens | None":
    if not TOKENS.holds(settings):
        return None
    from broker_ctl.daemon.wiring.security.jwt import build_jwt_tokens

    return build_jwt_tokens(settings, now_s)


def _static_tokens(settings: Settings, needed: Collection[str]) -> StaticTokens | None:
    """The tokens; one of the roles in ``needed`` must have one, if there are any."""
    file = settings.security.secret_file
    if file is None or not TOKENS.holds(settings):
        return None
    secret = read_secret(file, "tokenSecretKeyFile", is_one_line=False)
    tokens = StaticTokens.parse(secret.decode(errors="replace"))
    if needed:
        tokens.first_of(needed)
    return tokens
