"""One issuer: where its keys are, and the tokens that they verify.

Source: OpenID Connect Discovery 1.0, section 4
(https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderConfig).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object
from broker_ctl.errors import CorruptRecord, HttpError, SettingsError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.jwks import KeySet
from broker_ctl.security.jwt_tokens import JwtRules, JwtTokens
from broker_ctl.security.principal import Principal

_DISCOVERY: Final = "/.well-known/openid-configuration"
_HTTPS: Final = "https://"
# As Pulsar's provider, but for nbf, which many issuers leave out.
_REQUIRED: Final = ("sub", "iat", "exp")

# The body of an HTTPS URL; raises HttpError.
Fetch = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class OpenIdRules:
    """Which tokens are accepted, and how long the keys of issuers count.

    Attributes:
        issuers: their URLs, each the claim iss of its tokens.
        audiences: a token must be for one of these.
        role_claim: the claim with the role; of a list, its first item.
        leeway_s: by how much the clocks of issuer and broker may differ.
        refresh_s: time after which keys are fetched again.
        expiry_s: time after which keys that could not be fetched again do not count.
        miss_refresh_s: least time between two fetches because a token names an unknown key.
    """

    issuers: tuple[str, ...]
    audiences: frozenset[str]
    role_claim: str
    leeway_s: float
    refresh_s: float
    expiry_s: float
    miss_refresh_s: float


class Issuer:
    """The keys of an issuer, as they were when they were last fetched."""

    def __init__(self, url: str, rules: OpenIdRules, fetch: Fetch, clock: Clock) -> None:
        self.url: Final = url
        self._rules = rules
        self._fetch = fetch
        self._clock = clock
        self._content = b""
        self._keys: KeySet | None = None
        self._tokens: JwtTokens | None = None
        self._fetched_s = 0.0

    @property
    def has_keys(self) -> bool:
        """Whether there are keys that still count."""
        age_s = self._clock.now_s() - self._fetched_s
        return self._keys is not None and age_s < self._rules.expiry_s

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        if self._tokens is None or not self.has_keys:
            return None
        return self._tokens.authenticate(evidence)

    def knows_key_of(self, token: bytes) -> bool:
        """Whether the key that a token names is one of the issuer's."""
        return self._keys is not None and self._keys.find(token) is not None

    async def refresh(self) -> bool:
        """Fetch the keys; whether they have changed.

        Raises:
            HttpError: the issuer cannot be reached, or what it answers has no keys.
        """
        uri = _keys_uri(await self._fetch(self.url.rstrip("/") + _DISCOVERY), self.url)
        content = await self._fetch(uri)
        try:
            keys = self._keys if content == self._content else KeySet.parse(content)
        except SettingsError as error:
            raise HttpError(f"GET {uri}: {error}") from error
        self._fetched_s = self._clock.now_s()
        if keys is self._keys:
            return False
        self._content, self._keys = content, keys
        # What the earlier keys have verified is forgotten with them.
        self._tokens = self._new_tokens(keys)
        return True

    def _new_tokens(self, keys: KeySet | None) -> JwtTokens | None:
        if keys is None:
            return None
        rules = JwtRules(
            keys,
            self._rules.role_claim,
            leeway_s=self._rules.leeway_s,
            audiences=self._rules.audiences,
            issuer=self.url,
            required=_REQUIRED,
        )
        return JwtTokens(rules, lambda: self._clock.wall_ms() / 1000)


def _keys_uri(content: bytes, issuer: str) -> str:
    """Where the keys are, by the issuer's own description."""
    try:
        found = decode_object(content)
    except CorruptRecord as error:
        raise HttpError(f"issuer {issuer}: its configuration is {error}") from error
    if found.get("issuer") != issuer:
        # One issuer must not speak for another (section 4.3).
        raise HttpError(f"issuer {issuer}: its configuration is that of another issuer")
    uri = found.get("jwks_uri")
    if not isinstance(uri, str) or not uri.startswith(_HTTPS):
        raise HttpError(f"issuer {issuer}: jwks_uri is not an https URL")
    return uri
