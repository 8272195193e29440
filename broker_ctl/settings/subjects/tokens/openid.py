"""Tokens of OpenID Connect issuers, with Pulsar's keys."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import OPENID
from broker_ctl.settings.durations import InSeconds
from broker_ctl.settings.schema import Guard, Setting

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class OpenIdSettings:
    """OpenID Connect: whose tokens are accepted, and how keys are fetched."""

    issuers: Annotated[
        tuple[str, ...],
        Setting(
            "openIDAllowedTokenIssuers",
            "Issuers whose tokens are accepted, with AuthenticationProviderOpenID; each the claim "
            "iss of its tokens.",
            matches=r"https://[A-Za-z0-9._~:/%\[\]-]+",
            allowed="an https URL without user, query and fragment",
            used_with=(OPENID,),
        ),
    ] = ()
    audiences: Annotated[
        tuple[str, ...],
        Setting(
            "openIDAllowedAudiences",
            "Audiences, of which a token of an issuer must have one.",
            used_with=(OPENID,),
        ),
    ] = ()
    role_claim: Annotated[
        str,
        Setting(
            "openIDRoleClaim",
            "Claim of an issuer's token with the role; of a list, the first item.",
            used_with=(OPENID,),
        ),
    ] = "sub"
    clock_skew_s: Annotated[
        int,
        Setting(
            "openIDAcceptedTimeLeewaySeconds",
            "How far the clocks of an issuer and of this broker may differ.",
            at_least=0,
            at_most=3600,
            used_with=(OPENID,),
        ),
    ] = 0
    trust_certs_file: Annotated[
        Path | None,
        Setting(
            "openIDTokenIssuerTrustCertsFilePath",
            "File with the CA certificates that issuers are verified by; unset: the system's.",
            used_with=(OPENID,),
            guard=Guard.TRUST,
        ),
    ] = None
    refresh_s: Annotated[
        int,
        Setting(
            "openIDCacheRefreshAfterWriteSeconds",
            "Time after which the keys of an issuer are fetched again.",
            at_least=1,
            used_with=(OPENID,),
        ),
    ] = 18 * 3600
    expiry_s: Annotated[
        int,
        Setting(
            "openIDCacheExpirationSeconds",
            "Time after which the keys of an issuer do not count if they could not be fetched "
            "again.",
            at_least=1,
            used_with=(OPENID,),
        ),
    ] = _DAY_S
    miss_refresh_s: Annotated[
        int,
        Setting(
            "openIDKeyIdCacheMissRefreshSeconds",
            "Least time between two fetches of an issuer's keys because a token names an unknown "
            "one.",
            at_least=1,
            used_with=(OPENID,),
        ),
    ] = 300
    read_timeout_ms: Annotated[
        int,
        Setting(
            "openIDHttpReadTimeoutMillis",
            "Deadline of a request to an issuer, from the connection to the end of the answer.",
            at_least=1,
            used_with=(OPENID,),
        ),
    ] = 10_000

    read_timeout_s = InSeconds("read_timeout_ms")
