"""Tokens of OpenID Connect issuers, as Pulsar's AuthenticationProviderOpenID accepts them."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import jwt

from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object
from broker_ctl.errors import CorruptRecord, HttpError, SettingsError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Evidence, Principal
from broker_ctl.security.jwt import JwtRules, JwtTokens, KeySet
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# One issuer: where its keys are, and the tokens that they verify.
#
# Source: OpenID Connect Discovery 1.0, section 4
# (https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderConfig).


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


# The provider of tokens of OpenID Connect issuers, as Pulsar's AuthenticationProviderOpenID.


_MAX_TOKEN_BYTES: Final = 8192
# After a fetch that failed; up to twice as long, so that the brokers of a cluster do not fetch at
# once.
_RETRY_S: Final = 10.0


class OpenIdTokens:
    """Judges tokens by the keys that their issuers had when these were last fetched.

    Keys are fetched at the start, periodically, and when a token of an allowed issuer names a key
    that is not known; that token itself is refused, and one of a later request is not. No client
    waits for an issuer, and none makes the daemon fetch more often than the rules say.
    """

    def __init__(
        self, rules: OpenIdRules, http: HttpClient, clock: Clock, rng: random.Random
    ) -> None:
        self._rules = rules
        self._http = http
        self._rng = rng
        self._issuers = {url: Issuer(url, rules, self._fetch, clock) for url in rules.issuers}
        self._missed = {url: asyncio.Event() for url in rules.issuers}
        self._listeners: list[Callable[[], None]] = []
        self._tasks: Final = TaskScope("openid")

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the keys of an issuer were replaced."""
        self._listeners.append(listener)

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        token = evidence.token
        if not token or len(token) > _MAX_TOKEN_BYTES or token.count(b".") != 2:
            return None
        for issuer in self._issuers.values():
            principal = issuer.authenticate(evidence)
            if principal is not None:
                return principal
        self._note_unknown_key(token)
        return None

    def start(self) -> None:
        """Fetch the keys of each issuer, from now on."""
        for issuer in self._issuers.values():
            self._tasks.keep(self._follow(issuer), f"keys of {issuer.url}")

    async def close(self) -> None:
        """Fetch no more."""
        await self._tasks.close()
        await self._http.close()

    def _note_unknown_key(self, token: bytes) -> None:
        issuer = self._issuers.get(_issuer_of(token))
        if issuer is not None and not issuer.knows_key_of(token):
            self._missed[issuer.url].set()

    async def _follow(self, issuer: Issuer) -> None:
        rules, missed = self._rules, self._missed[issuer.url]
        while True:
            is_fetched = await self._refresh(issuer)
            missed.clear()
            pause_s = rules.refresh_s if is_fetched else _RETRY_S * self._rng.uniform(1, 2)
            least_s = min(pause_s, rules.miss_refresh_s)
            await asyncio.sleep(least_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s - least_s):
                    await missed.wait()

    async def _refresh(self, issuer: Issuer) -> bool:
        """Whether the keys could be fetched."""
        try:
            is_changed = await issuer.refresh()
        except HttpError as error:
            state = "the earlier keys stay in use" if issuer.has_keys else "its tokens are refused"
            log.warning("keys of the issuer %s: %s; %s", issuer.url, error, state)
            return False
        if is_changed:
            log.info("keys of the issuer %s are fetched", issuer.url)
            for listener in self._listeners:
                listener()
        return True

    async def _fetch(self, url: str) -> bytes:
        # A redirect is not followed: it could lead to any host.
        reply = await self._http.request("GET", url)
        if reply.status != 200:
            raise HttpError(f"GET {url}: status {reply.status}")
        return reply.body


def _issuer_of(token: bytes) -> str:
    """The issuer that a token names, which proves nothing."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    # Clients choose the text of a token.
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
        return ""
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""
