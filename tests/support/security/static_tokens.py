"""Rules of an API that admits clients by static tokens."""

from collections.abc import Collection
from typing import TypedDict

from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.static_tokens import StaticTokens


class Admission(TypedDict):
    authenticator: Authenticator
    policy: AuthorizationPolicy


def admitting(
    text: str,
    super_users: Collection[str],
    readers: Collection[str] = (),
    operators: Collection[str] = (),
) -> Admission:
    """Arguments of `ApiRules`: the lines of a secret file, and who may do what."""
    authenticator = Authenticator([StaticTokens.parse(text)])
    return Admission(
        authenticator=authenticator,
        policy=AuthorizationPolicy(
            ClusterRoles(
                super_users=frozenset(super_users),
                operators=frozenset(operators),
                viewers=frozenset(readers),
            )
        ),
    )
