"""Tokens of clients: JSON Web Tokens, OpenID Connect, and the one of this machine."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.security.key_source import KeySource
from broker_ctl.settings.conditions import BEARER_TOKENS, OPENID, OWN_BROKER, TOKENS, given
from broker_ctl.settings.schema import Guard, Setting
from broker_ctl.settings.values import InSeconds

# JSON Web Tokens of clients, with Pulsar's keys.


_KEY_FORMS = "file:///path, /path, data:;base64,... or base64"


class PublicAlgorithm(StrEnum):
    """Algorithms of signatures with a public key (RFC 7518, section 3.1)."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """JSON Web Tokens: how those of clients are verified, besides static tokens."""

    secret_key: Annotated[
        KeySource | None,
        Setting(
            "tokenSecretKey",
            "Secret key (HMAC) that verifies JSON Web Tokens, as the bytes of a file or inline.",
            allowed=_KEY_FORMS,
            used_with=(TOKENS,),
            guard=Guard.SECRET,
        ),
    ] = None
    public_key: Annotated[
        KeySource | None,
        Setting(
            "tokenPublicKey",
            "Public key that verifies JSON Web Tokens: DER, base64 or PEM, in a file or inline.",
            allowed=_KEY_FORMS,
            used_with=(TOKENS,),
            guard=Guard.TRUST,
        ),
    ] = None
    public_algorithm: Annotated[
        PublicAlgorithm,
        Setting(
            "tokenPublicAlg",
            "Algorithm of the signatures that tokenPublicKey verifies; no other is accepted.",
            used_with=(TOKENS, given("tokenPublicKey")),
        ),
    ] = PublicAlgorithm.RS256
    jwks_file: Annotated[
        Path | None,
        Setting(
            "tokenJwksFile",
            "File with a JSON Web Key Set: public keys that verify JSON Web Tokens, each of which "
            "names its key by kid.",
            used_with=(TOKENS,),
            guard=Guard.TRUST,
        ),
    ] = None
    role_claim: Annotated[
        str,
        Setting(
            "tokenAuthClaim",
            "Claim of a JSON Web Token with the role; empty: sub.",
            used_with=(TOKENS,),
        ),
    ] = ""
    audience_claim: Annotated[
        str,
        Setting(
            "tokenAudienceClaim",
            "Claim of a JSON Web Token that must hold tokenAudience; empty: aud.",
            used_with=(TOKENS, given("tokenAudience")),
        ),
    ] = ""
    audience: Annotated[
        str,
        Setting(
            "tokenAudience",
            "Audience that a JSON Web Token must be for; empty: any.",
            used_with=(TOKENS,),
        ),
    ] = ""
    clock_skew_s: Annotated[
        int,
        Setting(
            "tokenAllowedClockSkewSeconds",
            "How far the clocks of the issuer of a JSON Web Token and of this broker may differ.",
            at_most=3600,
            used_with=(TOKENS,),
        ),
    ] = 0
    refresh_check_s: Annotated[
        int,
        Setting(
            "authenticationRefreshCheckSeconds",
            "How often a binary connection is checked for an expired token, and how long its "
            "client has to send a newer one.",
            at_least=1,
            at_most=3600,
            used_with=(BEARER_TOKENS, OWN_BROKER),
        ),
    ] = 60


# The token that a daemon draws for commands on its machine.


@dataclass(frozen=True, slots=True)
class LoopbackTokenSettings:
    """The token for commands on this machine."""

    is_enabled: Annotated[
        bool,
        Setting(
            "loopbackTokenEnabled",
            "Whether the daemon draws a random token of a super user when it starts, for commands "
            "on this machine: they find it by the daemon's loopback URL, in a file that only the "
            "daemon's user can read. A daemon that listens on loopback draws one in any case if no "
            "other token could be verified.",
            used_with=(TOKENS,),
        ),
    ] = False


# Tokens of OpenID Connect issuers, with Pulsar's keys.


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
