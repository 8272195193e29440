"""Who clients are and what they may do, who this daemon is to others, from the settings."""

import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.daemon.wiring.keys import reloadable
from broker_ctl.errors import SettingsError
from broker_ctl.instruments.clients import AuditInstruments, SecurityInstruments
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.instruments.kinds import Labels
from broker_ctl.security.audit.log import AuditLog, AuditRules
from broker_ctl.security.authentication import LOOPBACK_ROLE, Authenticator, Provider
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.certificates.certificate_roles import CertificateRoles
from broker_ctl.security.certificates.peer_certificate import BrokerIdentity
from broker_ctl.security.cluster_key import ClusterKeys, KeyFile, derive_keys
from broker_ctl.security.guarded_files import read_guarded, read_secret
from broker_ctl.security.rotation.reloadable import NewestKeys, NewestProvider, Reloadable
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.static_tokens import LoopbackToken, StaticTokens, runtime_directory
from broker_ctl.settings.addresses import is_loopback
from broker_ctl.settings.conditions import BROKER_CERTIFICATES, LOOPBACK_TOKEN, SIGNED, TOKENS
from broker_ctl.settings.publishing import token_addresses
from broker_ctl.settings.root import Settings
from broker_ctl.settings.subjects.security import AuthenticationProvider, SignatureMode
from broker_ctl.store.interface import BulkStore
from broker_ctl.store.signed import FAMILIES, Failure, SignedStore, ZnodeSignatures

if TYPE_CHECKING:
    from broker_ctl.security.jwt import JwtTokens
    from broker_ctl.security.openid import OpenIdTokens

log = logging.getLogger(__name__)


# The audit log of this daemon, from the settings.


def build_audit_log(settings: Settings, broker_id: str, clock: Clock) -> AuditLog:
    """The audit log; without a file and a syslog server it records nothing."""
    audit = settings.audit
    rules = AuditRules(syslog=audit.syslog_address)
    if audit.file is not None:
        rules = AuditRules(
            audit.file,
            audit.file_max_bytes,
            audit.files_kept,
            audit.syslog_address,
            audit.is_required,
        )
    return AuditLog(rules, broker_id, clock)


def bind_audit_log(instruments: AuditInstruments, audit: AuditLog) -> None:
    """Bind the instruments of the audit log."""
    instruments.written.bind(lambda: audit.written)
    instruments.lost.bind(lambda: audit.lost)
    instruments.queued.bind(lambda: audit.queued)
    instruments.is_failing.bind(lambda: float(audit.is_failing))


# What roles may do, from the settings.


def cluster_roles(settings: Settings) -> ClusterRoles:
    """Members of the ready roles."""
    security = settings.security
    local = (LOOPBACK_ROLE,) if LOOPBACK_TOKEN.holds(settings) else ()
    return ClusterRoles(
        super_users=frozenset((*security.super_user_roles, *local)),
        operators=frozenset(security.operator_roles),
        viewers=frozenset(security.viewer_roles),
        proxies=frozenset(security.proxy_roles),
    )


def authorization_policy(settings: Settings) -> AuthorizationPolicy:
    """The policy of the whole API; without authentication nobody has a role."""
    security = settings.security
    if not security.authentication_enabled:
        return AuthorizationPolicy(ClusterRoles())
    return AuthorizationPolicy(
        cluster_roles(settings),
        security.authorization_enabled,
        security.allows_wildcards,
        security.authenticates_original,
    )


def needs_dual_authorization(settings: Settings) -> bool:
    """Whether another role than its proposer's has to approve a plan."""
    security = settings.security
    return security.authentication_enabled and security.dual_authorization


# Who clients are, and what this daemon is to others, from the settings.
#
# What verifies JSON Web Tokens is imported only where clients authenticate with them: a daemon
# without it starts sooner.


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
    from broker_ctl.daemon.wiring.tokens import build_openid_tokens

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
    from broker_ctl.daemon.wiring.tokens import build_jwt_tokens

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


# The keys of the cluster, from their file or from what all daemons have to verify tokens.


# Keys may be derived from what is in the other two.
_FILES: Final = ("clusterKeyFile", "tokenSecretKeyFile", "tokenSecretKey")


def newest_cluster_keys(
    settings: Settings, authentication: Authentication | None, reloader: Reloader
) -> NewestKeys | None:
    """The keys, reloaded when their files change.

    None: there is neither a file of them, nor a secret that all brokers have.

    Raises:
        StartError, SettingsError: a file that cannot be read, or holds no keys; or nothing
            to derive keys from where brokers need them.
    """
    newest = reloadable(
        settings, reloader, "cluster-keys", _FILES, lambda: _keys(settings, authentication)
    )
    return None if newest is None else NewestKeys(newest)


def read_cluster_keys(settings: Settings) -> NewestKeys | None:
    """The keys that a daemon with these settings has, for a command beside it.

    Raises:
        StartError, SettingsError: as `newest_cluster_keys`.
    """
    authentication = build_authentication(settings, SystemClock(), Reloader())
    return newest_cluster_keys(settings, authentication, Reloader())


def derived_keys(settings: Settings) -> tuple[bytes, ...]:
    """The keys that daemons with these settings derive from tokens; none without such tokens.

    Raises:
        StartError, SettingsError: a file that cannot be read.
    """
    return _derive(settings, build_authentication(settings, SystemClock(), Reloader()))


def _keys(settings: Settings, authentication: Authentication | None) -> ClusterKeys | None:
    file = settings.security.cluster_key_file
    derive = partial(_derive, settings, authentication)
    if file is not None:
        text = read_secret(file, "clusterKeyFile", is_one_line=False).decode(errors="replace")
        keys = KeyFile.parse(text).keys(derive)
    elif derived := derive():
        keys = ClusterKeys.of(derived, is_derived=True)
    elif authentication is not None and SIGNED.holds(settings):
        raise SettingsError(
            "clusterKeyFile: not set, and tokenSecretKeyFile has no token of a super user in the "
            "clear to derive keys from: broker-ctl cluster-key create makes a file of keys"
        )
    else:
        return None
    log.info("cluster keys: %s signs, %s verify", keys.names[0], ", ".join(keys.names))
    return keys


def _derive(settings: Settings, authentication: Authentication | None) -> tuple[bytes, ...]:
    if authentication is None:
        return ()
    secrets = _shared_secrets(settings, authentication)
    return derive_keys(settings.broker.cluster_name, secrets)


def _shared_secrets(settings: Settings, authentication: Authentication) -> Iterator[bytes]:
    """What all brokers have and no client, but for super users: the first one signs."""
    file = settings.security.secret_file
    if file is not None and TOKENS.holds(settings):
        # Authentication has warned of those who can read it.
        text = read_guarded(file).decode(errors="replace")
        yield from StaticTokens.parse(text).of_roles(authentication.roles.super_users)
    if not TOKENS.holds(settings):
        return
    # Imported only where clients have such tokens: a daemon without it starts sooner.
    from broker_ctl.daemon.wiring.tokens import read_jwt_key

    key = read_jwt_key(settings)
    if key is not None and isinstance(key.key, bytes):
        yield key.key


def bind_cluster_keys(instruments: SecurityInstruments, keys: NewestKeys | None) -> None:
    """Bind the metric that shows which keys this process has read."""

    def uses() -> Mapping[Labels, float]:
        names = () if keys is None else keys.names
        return {(name, "verify" if number else "sign"): 1.0 for number, name in enumerate(names)}

    instruments.cluster_keys.bind(uses)


# Whether payloads in ZooKeeper are signed, by the settings.


def signed_store(
    store: BulkStore,
    settings: Settings,
    keys: NewestKeys | None,
    instruments: StoreInstruments,
    clock: Clock,
) -> BulkStore:
    """Wrap ``store`` so that its payloads are signed; ``store`` itself without keys, or if off.

    Readers of unsigned payloads ignore the field of the signature.
    """
    mode = settings.security.znode_signatures
    if keys is None or settings.metadata.store_url is None or mode is SignatureMode.OFF:
        return store
    failures = instruments.signature_failures
    for family in FAMILIES:
        for failure in Failure:
            failures.start(family, failure.value)
    signatures = ZnodeSignatures(
        keys.kept(),
        signature_scope(settings),
        clock,
        is_required=requires_signatures(settings),
        on_failure=failures.add,
    )
    return SignedStore(store, signatures)


def requires_signatures(settings: Settings) -> bool:
    """Whether what a broker says through ZooKeeper counts only with a signature."""
    return settings.security.znode_signatures is SignatureMode.REQUIRE


def signature_scope(settings: Settings) -> str:
    """What the signatures of one cluster have in common, and those of others do not."""
    url = settings.metadata.store_url
    return f"{settings.broker.cluster_name}{'' if url is None else url.chroot}"
