"""The provider of tokens of OpenID Connect issuers, as Pulsar's AuthenticationProviderOpenID."""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import jwt

from broker_ctl.clock import Clock
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.openid.issuer import Issuer, OpenIdRules
from broker_ctl.security.principal import Principal
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

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
