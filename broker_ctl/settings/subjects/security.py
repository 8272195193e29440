"""Who may do what over HTTP."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import AUTHENTICATED, UNGUARDED
from broker_ctl.settings.schema import Setting


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Security: who may do what over HTTP."""

    authentication_enabled: Annotated[
        bool, Setting("authenticationEnabled", "Ask every client and broker for a bearer token.")
    ] = False
    secret_file: Annotated[
        Path | None,
        Setting(
            "tokenSecretKeyFile",
            "File with the secret behind the bearer tokens, the same on all brokers.",
            used_with=(AUTHENTICATED,),
        ),
    ] = None
    super_user_roles: Annotated[
        tuple[str, ...],
        Setting(
            "superUserRoles", "Roles that may do every admin operation.", used_with=(AUTHENTICATED,)
        ),
    ] = ()
    read_only_roles: Annotated[
        tuple[str, ...],
        Setting(
            "readOnlyRoles",
            "Roles that may see what operators see: status, plan, history; and do nothing.",
            used_with=(AUTHENTICATED,),
        ),
    ] = ()
    allow_insecure_listener: Annotated[
        bool,
        Setting(
            "allowInsecureListener",
            "Start although the HTTP server listens off loopback without authentication.",
            used_with=(UNGUARDED,),
        ),
    ] = False
