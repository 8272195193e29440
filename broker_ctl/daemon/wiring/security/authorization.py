"""What roles may do, from the settings."""

from broker_ctl.security.authorization.cluster_roles import ClusterRoles
from broker_ctl.security.authorization.policy import AuthorizationPolicy
from broker_ctl.security.principal import LOOPBACK_ROLE
from broker_ctl.settings.conditions import LOOPBACK_TOKEN
from broker_ctl.settings.root import Settings


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
