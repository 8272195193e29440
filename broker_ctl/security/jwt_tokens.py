"""JSON Web Tokens (RFC 7519), as Pulsar's AuthenticationProviderToken accepts them."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from broker_ctl.security.authentication import Evidence
from broker_ctl.security.jwks import KeySet
from broker_ctl.security.jwt_keys import JwtKey
from broker_ctl.security.principal import Principal, Proof

_MAX_TOKEN_BYTES: Final = 8192
_MAX_ROLE_LENGTH: Final = 256
_MAX_CACHED: Final = 1024


@dataclass(frozen=True, slots=True)
class JwtRules:
    """Which tokens are accepted.

    Attributes:
        key: a key, or a set of which each token names one.
        role_claim: the claim with the role; of a list, its first item.
        audience_claim: the claim that must hold ``audience``, alone or in a list.
        audience: empty: tokens for every audience.
        leeway_s: by how much the clocks of issuer and broker may differ.
        audiences: the token must be for one of these, if there are any.
        issuer: empty: the issuer is not checked.
        required: claims that must be there.
    """

    key: JwtKey | KeySet
    role_claim: str = "sub"
    audience_claim: str = "aud"
    audience: str = ""
    leeway_s: float = 0.0
    audiences: frozenset[str] = frozenset()
    issuer: str = ""
    required: tuple[str, ...] = ()


class JwtTokens:
    """Verifies tokens. Valid ones are remembered until they expire, up to a number.

    Args:
        now_s: Unix time in seconds, for the expiry of those that are remembered.
    """

    def __init__(self, rules: JwtRules, now_s: Callable[[], float]) -> None:
        self._rules = rules
        self._now_s = now_s
        self._valid: OrderedDict[bytes, Principal] = OrderedDict()

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        token = evidence.token
        if not token or len(token) > _MAX_TOKEN_BYTES or token.count(b".") != 2:
            return None
        digest = hashlib.sha256(token).digest()
        principal = self._valid.get(digest)
        if principal is not None:
            if not principal.is_expired(self._now_s()):
                self._valid.move_to_end(digest)
                return principal
            del self._valid[digest]
        principal = self._verify(token)
        if principal is not None:
            self._valid[digest] = principal
            if len(self._valid) > _MAX_CACHED:
                self._valid.popitem(last=False)
        return principal

    def _verify(self, token: bytes) -> Principal | None:
        rules = self._rules
        key = rules.key.find(token) if isinstance(rules.key, KeySet) else rules.key
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                issuer=rules.issuer or None,
                leeway=rules.leeway_s,
                # Pulsar's claim may be another one.
                options={"verify_aud": False, "require": list(rules.required)},
            )
            ends = claims.get("exp")
            expires_at_s = None if ends is None else float(ends) + rules.leeway_s
        # Clients choose the text of a token: too deep, or with numbers that are too large.
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
            return None
        role = _role_of(claims, rules.role_claim)
        if role is None or not _is_meant(claims, rules):
            return None
        token_id = claims.get("jti")
        if not isinstance(token_id, str) or len(token_id) > _MAX_ROLE_LENGTH:
            token_id = ""
        return Principal(role, Proof.JWT, expires_at_s, token_id)


def _role_of(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ROLE_LENGTH:
        return None
    return value if value.isprintable() else None


def _is_meant(claims: Mapping[str, Any], rules: JwtRules) -> bool:
    wanted = rules.audiences or ({rules.audience} if rules.audience else frozenset())
    if not wanted:
        return True
    value = claims.get(rules.audience_claim)
    given = value if isinstance(value, list) else [value]
    return any(isinstance(each, str) and each in wanted for each in given)
