"""Rules of an API that admits clients by static tokens."""

from collections.abc import Collection
from typing import TypedDict

from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.role_sets import RoleSets
from broker_ctl.security.static_tokens import StaticTokens


class Admission(TypedDict):
    authenticator: Authenticator
    roles: RoleSets


def admitting(text: str, super_users: Collection[str], readers: Collection[str] = ()) -> Admission:
    """Arguments of `ApiRules`: the lines of a secret file, and who may do what."""
    authenticator = Authenticator([StaticTokens.parse(text)])
    return Admission(
        authenticator=authenticator, roles=RoleSets(frozenset(super_users), frozenset(readers))
    )
