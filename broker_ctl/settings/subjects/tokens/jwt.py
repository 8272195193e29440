"""JSON Web Tokens of clients, with Pulsar's keys."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from broker_ctl.security.key_source import KeySource
from broker_ctl.settings.conditions import BEARER_TOKENS, OWN_BROKER, TOKENS, given
from broker_ctl.settings.schema import Guard, Setting

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
